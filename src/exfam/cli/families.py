"""Families as the command line and YAML write them."""

from collections.abc import Mapping
from typing import Any

from exfam.cli.errors import reworded
from exfam.families import FAMILIES, Family, family_of_words


def family_from_words(given: Any) -> Any:
    """What an estimator takes as `family`: a name, a family, or a dict of such by value column."""
    with reworded({"`family`": "`--family`"}):
        if isinstance(given, Mapping) and given.get("name") not in FAMILIES:
            return {str(name): family_of_words(family) for name, family in given.items()}
        return family_of_words(given)


def families_from_words(given: Mapping[str, Any]) -> dict[str, Family]:
    """What an estimator of tables takes as `families`: a family for each of some columns."""
    with reworded({"`family`": "`--families`"}):
        return {name: family_of_words(family) for name, family in given.items()}
