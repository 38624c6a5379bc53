"""A page of a small model without a server: its answers are computed in it, or written there."""
