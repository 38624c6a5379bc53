"""Forecasts of fields: maps several steps ahead, and what they are judged by."""
