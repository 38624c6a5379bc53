"""Contenders of fields."""
