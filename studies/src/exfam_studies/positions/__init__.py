"""Locality and symmetry of positional encodings."""
