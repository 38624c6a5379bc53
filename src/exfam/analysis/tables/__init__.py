"""What a model of table rows says: laws, joints, draws, filled cells, shifts."""
