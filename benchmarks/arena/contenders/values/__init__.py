"""Contenders of values, a module for each sort of model."""
