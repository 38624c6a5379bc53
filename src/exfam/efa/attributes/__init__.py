"""Items by their attributes: features of items, and models that take in items never seen."""
