"""Attention on the innovations of a base of fields: from zero, cross-fitted, gated."""
