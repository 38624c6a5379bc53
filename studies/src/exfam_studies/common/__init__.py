"""What all studies share: rows, runs, stores, printed tables."""
