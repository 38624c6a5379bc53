"""How badly the parts of data are predicted: their terms, slices, calibration, and shift."""
