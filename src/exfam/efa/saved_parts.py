"""What a model file says of the parts that members are built with."""

from collections.abc import Mapping, Sequence
from typing import Any

from exfam.efa.base.choose import base_shape, empty_base
from exfam.efa.networks.based_values import empty_columns, shapes_of
from exfam.families import Family
from exfam.likelihoods.two_part import TwoPartModel


def parts_of(members: Sequence[TwoPartModel]) -> dict[str, Any]:
    """The shapes of all members' parts, as plain values of JSON.

    Members have bases of different shapes where some say more with contexts.
    """
    bases = [getattr(member.item_part, "base", None) for member in members]
    return {
        "base": [None if base is None else base_shape(base) for base in bases],
        "value_bases": [shapes_of(member.value_part) for member in members],
        "earlier_columns": [member.earlier and member.earlier.config() for member in members],
    }


def starts_of(config: Mapping[str, Any], families: Mapping[str, Family]) -> dict[str, Any]:
    """What one member is built with, its numbers to be loaded; of older files, too."""
    number, shape = config["member"], config.get("base")
    if isinstance(shape, list):  # older versions had one of all members
        shape = shape[number]
    earlier = config.get("earlier_columns")
    return {
        "base": None if shape is None else empty_base(shape),
        "value_bases": empty_columns(config, families),
        "earlier": earlier and earlier[number],
    }
