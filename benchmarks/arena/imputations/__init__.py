"""Imputation of whole panels of fields: what is hidden, and what it is judged by."""
