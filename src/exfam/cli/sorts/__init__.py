"""What commands do with a model, by the sort of data that it reads: one `Sort` each.

A command looks its sort up once, by what the registry says that the estimator reads, and has no
branches on it. A new sort is a module here and a line in `SORTS`.
"""

import pkgutil
from typing import Any

from exfam.checks import ExfamError
from exfam.cli.sorts.base import Sort
from exfam.estimator.registry import REGISTRY

# What an estimator reads, by the registry -> its sort.
SORTS = {
    "groups": "groups:GROUPS",
    "events": "events:EVENTS",
    "fields": "fields:FIELDS",
    "tables": "tables:TABLES",
    "communities": "communities:COMMUNITIES",
    "text": "text:WORDS",
    "sentences": "text:SENTENCES",
}


def sort_named(reads: str) -> Sort:
    """The sort of what an estimator reads."""
    sort: Sort = pkgutil.resolve_name(f"exfam.cli.sorts.{SORTS[reads]}")
    return sort


def sort_of(model: Any, command: str, chosen: Any) -> Sort:
    """The sort of a model that a command is given."""
    sort, name = sort_named(REGISTRY[model.kind].reads), type(model).__name__
    if advice := sort.instead.get(command):
        raise ExfamError(f"`MODEL` must be of groups, not of {sort.name}, got {name}. {advice}")
    for option, advice in sort.refused.items():
        if (value := getattr(chosen, option, None)) not in (None, False):
            raise ExfamError(
                f"`--{option.replace('_', '-')}` must be left out for a model of {sort.name}, got "
                f"{value!r}. {advice}"
            )
    return sort
