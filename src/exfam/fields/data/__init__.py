"""Values at places and times as Groups: one group per map, one element per site."""

from exfam.fields.data.facts import FieldFacts, check_field, has_history, with_lags
from exfam.fields.data.further import only_observed
from exfam.fields.data.read import read_field, read_field_with_facts

__all__ = [
    "FieldFacts",
    "check_field",
    "has_history",
    "only_observed",
    "read_field",
    "read_field_with_facts",
    "with_lags",
]
