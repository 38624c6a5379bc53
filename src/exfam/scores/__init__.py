"""Scores of predictions: ranks, errors, intervals, calibration."""
