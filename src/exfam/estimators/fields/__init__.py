"""Estimators of fields: values at places and times."""

from exfam.estimators.fields.efa import FieldEFA

__all__ = ["FieldEFA"]
