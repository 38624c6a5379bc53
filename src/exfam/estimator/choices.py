"""The family of each column, from what a user names: the rule, and what a fit makes of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from exfam.checks import ExfamError, check_choice
from exfam.estimator.rules import Rule
from exfam.families import FAMILIES, Family, PerItem
from exfam.groups import Groups


def choose_families(family: Any, groups: Groups) -> dict[str, Family]:
    """The family of each value column, from one for all or a dict by column.

    Items that `PerItem` names by their labels are named by their codes, as models know them.

    >>> choose_families("gaussian", Groups(start=[0], stop=[1], values={"stars": [3.0]}))
    {'stars': Gaussian(scale=None)}
    """
    given = family if isinstance(family, Mapping) else dict.fromkeys(groups.values, family)
    for column in groups.values:
        if column not in given:
            raise ExfamError(
                f"`family` must name a family for every value column, got none for {column!r}."
            )
    for column in given:
        if column not in groups.values:
            columns = ", ".join(repr(name) for name in groups.values)
            raise ExfamError(f"`family` must name value columns ({columns}), got {column!r}.")
    labels = groups.vocabulary.get("item")
    chosen = {column: choose_family(given[column]) for column in groups.values}
    if labels is None:
        return chosen
    return {
        column: _by_code(family, labels) if isinstance(family, PerItem) else family
        for column, family in chosen.items()
    }


def _by_code(family: PerItem, labels: np.ndarray) -> PerItem:
    """The family with item codes in place of their labels."""
    codes = {label: code for code, label in enumerate(labels.tolist())}
    for label in family.families:
        if label not in codes:
            raise ExfamError(
                f"`family` must name items of the data, got {label!r} in PerItem. Use labels as in "
                f"the item column, such as {next(iter(codes))!r}."
            )
    without = [label for label in codes if label not in family.families]
    if without and family.default is None:
        raise ExfamError(
            f"`family` must name a family for every item, got none for {without[0]!r} "
            f"({len(without)} of {len(codes)} items). Pass PerItem(families, default=...)."
        )
    return PerItem({codes[label]: own for label, own in family.families.items()}, family.default)


def check_families(family: Any) -> None:
    """Raise ExfamError unless `family` is a family, the name of one, or a dict of such.

    >>> check_families({"stars": "gaussian"})
    """
    for given in family.values() if isinstance(family, Mapping) else [family]:
        choose_family(given)


def choose_family(given: Any) -> Family:
    """A family from an instance or a name.

    Raises ExfamError for a class, an unknown name, or one that needs arguments.

    >>> choose_family("gaussian")
    Gaussian(scale=None)
    """
    if isinstance(given, Family):
        return given
    if isinstance(given, type) and issubclass(given, Family):
        raise ExfamError(
            f"`family` must be an instance or a name, got the class {given.__name__}. "
            f"Pass an instance, {given.__name__}()."
        )
    check_choice("family", given, FAMILIES)
    try:
        return FAMILIES[given]()
    except TypeError as error:
        name = FAMILIES[given].__name__
        raise ExfamError(
            f"`family` must be an instance where it has arguments of its own, got {given!r}. "
            f"Pass exfam.families.{name}(…)."
        ) from error


def Families() -> Rule:
    """The rule for a family, the name of one, or a mapping of columns to such."""

    def allows(value: Any) -> bool:
        try:
            check_families(value)
        except ExfamError:
            return False
        return True

    return Rule(
        "a family, the name of one, or a mapping of columns to these",
        allows,
        explain=lambda name, value: check_families(value),
    )
