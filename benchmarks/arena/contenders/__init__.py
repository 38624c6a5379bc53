"""Contenders, a module for each sort of model; the kinds list those that take part."""
