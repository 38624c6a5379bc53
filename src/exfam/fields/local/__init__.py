"""The base of fields of many sites: each value from the columns near it, no table of all pairs."""
