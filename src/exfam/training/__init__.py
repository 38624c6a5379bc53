"""Fitting: one run protocol (progress, Ctrl-C, checkpoints, history) and the engines it drives."""
