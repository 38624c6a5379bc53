"""Arrays, groups or models in, numbers out."""
