"""Contenders of imputations beside those of fields."""
