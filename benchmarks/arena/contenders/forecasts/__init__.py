"""Contenders of forecasts."""
