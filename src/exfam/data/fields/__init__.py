"""Values at places and times as Groups: one group a map, one element a site."""

from exfam.data.fields.contract import check_field
from exfam.data.fields.facts import FieldFacts, field_facts
from exfam.data.fields.further import only_observed, with_places, with_times
from exfam.data.fields.lags import has_history, with_lags
from exfam.data.fields.reading import read_field, read_field_with_facts

__all__ = [
    "FieldFacts",
    "check_field",
    "field_facts",
    "has_history",
    "only_observed",
    "read_field",
    "read_field_with_facts",
    "with_lags",
    "with_places",
    "with_times",
]
