"""Rows of a table with a response: data, tasks of hidden cells, and what they are judged by."""
