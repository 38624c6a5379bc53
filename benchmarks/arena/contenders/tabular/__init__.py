"""Contenders of tables, a module for each sort of model."""
