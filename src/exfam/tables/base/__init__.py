"""Simple models of a table's columns: what attention corrects."""
