"""Exponential Family Attention."""
