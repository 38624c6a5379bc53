"""The sort of a model, and commands that answer about a file."""

import importlib
from collections.abc import Callable
from typing import Any

from exfam.checks import ExfamError
from exfam.cli.notes import note
from exfam.cli.output import deliver, destination
from exfam.cli.sorts.base import Sort
from exfam.cli.sources import open_model
from exfam.estimator.registry import REGISTRY

# What an estimator reads, by the registry -> module and name of its sort.
SORTS = {
    "groups": ("exfam.cli.sorts.groups", "GROUPS"),
    "fields": ("exfam.cli.sorts.fields", "FIELDS"),
    "tables": ("exfam.cli.sorts.tables", "TABLES"),
    "text": ("exfam.cli.sorts.text", "WORDS"),
    "sentences": ("exfam.cli.sorts.text", "SENTENCES"),
}


def sort_named(reads: str) -> Sort:
    """The sort of what an estimator reads."""
    module, name = SORTS[reads]
    sort: Sort = getattr(importlib.import_module(module), name)
    return sort


def sort_of(model: Any, command: str, chosen: Any) -> Sort:
    """The sort of a model that a command is given.

    Raises ExfamError where the command or an option that was chosen is not for such models.
    """
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


def respond(
    command: str, chosen: Any, *, more: Callable[[Sort, Any, Any], list[str]] | None = None
) -> None:
    """Read the file as the model reads it, and write what the sort answers.

    `more`: of the sort, the model and the data: further lines to say (default None)
    """
    to = destination(chosen.format, chosen.output)
    model = open_model(chosen)
    sort = sort_of(model, command, chosen)
    data, description = sort.read(model, chosen, file=chosen.file)
    columns, lines = sort.answers[command](model, data, chosen)
    if more is not None:
        lines = lines + more(sort, model, data)
    note(*filter(None, [description, *lines]))
    deliver(columns, to)
