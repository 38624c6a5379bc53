"""Families as plain JSON values, and back."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from exfam.checks import ExfamError, check_choice
from exfam.families.base import Family
from exfam.families.categories import Categorical, Ordinal
from exfam.families.continuous import Exponential, Gamma, Gaussian
from exfam.families.counts import Bernoulli, Binomial, NegativeBinomial, Poisson
from exfam.families.histogram import Histogram
from exfam.families.per_item import PerItem
from exfam.families.scaled import Scaled
from exfam.families.student_t import StudentT

__all__ = ["FAMILIES", "family_from_config", "family_to_config"]


def family_to_config(family: Family) -> dict[str, Any]:
    """The family's name and options, in types that JSON knows.

    >>> family_to_config(Poisson(shift=1))
    {'name': 'poisson', 'shift': 1, 'link': 'log'}
    """
    if isinstance(family, PerItem):
        # Pairs: keys of a JSON object would not tell item 1 from item "1".
        listed = [
            [key if isinstance(key, str) else int(key), family_to_config(one)]
            for key, one in family.families.items()
        ]
        default = None if family.default is None else family_to_config(family.default)
        return {"name": family.name, "families": listed, "default": default}
    if isinstance(family, Scaled):
        units = {"center": family.center, "scale": family.scale}
        return {**family_to_config(family.family), "standardized": units}
    options = {field.name: getattr(family, field.name) for field in fields(family)}  # type: ignore[arg-type]
    return {"name": family.name, **options}


def family_from_config(config: Mapping[str, Any]) -> Family:
    """The family that `family_to_config` described.

    Raises ExfamError for an unknown name or option.

    >>> family_from_config({"name": "poisson", "shift": 1})
    Poisson(shift=1, link='log')
    """
    if not isinstance(config, Mapping) or "name" not in config:
        raise ExfamError(f"`config` must be a dictionary with a name, got {config!r}.")
    if "standardized" in config:
        return _standardized(config)
    check_choice("name", config["name"], FAMILIES)
    kind = FAMILIES[config["name"]]
    options = {key: value for key, value in config.items() if key != "name"}
    allowed = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(set(options) - allowed):
        raise ExfamError(
            f"`config` must hold options of {kind.name} ({', '.join(sorted(allowed)) or 'none'}), "
            f"got {unknown[0]!r}."
        )
    required = [field.name for field in fields(kind) if field.default is MISSING]  # type: ignore[arg-type]
    if missing := sorted(set(required) - set(options)):
        raise ExfamError(
            f"`config` must hold {missing[0]!r} for {kind.name}, got {dict(config)!r}."
        )
    if kind is PerItem:
        options = _per_item_options(options)
    # JSON knows no tuples.
    held = {key: tuple(each) if isinstance(each, list) else each for key, each in options.items()}
    return kind(**held)


def _standardized(config: Mapping[str, Any]) -> Scaled:
    units = config["standardized"]
    if not isinstance(units, Mapping) or set(units) != {"center", "scale"}:
        raise ExfamError(f"`standardized` must hold a center and a scale, got {units!r}.")
    for name, number in units.items():
        if not isinstance(number, int | float) or isinstance(number, bool):
            raise ExfamError(f"`{name}` must be a number, got {number!r}.")
    plain = {key: value for key, value in config.items() if key != "standardized"}
    return Scaled(family_from_config(plain), float(units["center"]), float(units["scale"]))


def _per_item_options(options: dict[str, Any]) -> dict[str, Any]:
    listed, default = options["families"], options.get("default")
    return {
        "families": {item: family_from_config(one) for item, one in _pairs(listed)},
        "default": None if default is None else family_from_config(default),
    }


def _pairs(listed: Any) -> list[tuple[int | str, Any]]:
    """Items and their families, from pairs or from an object whose keys are codes."""
    if isinstance(listed, Mapping) and all(str(code).isdigit() for code in listed):
        return [(int(code), one) for code, one in listed.items()]
    if isinstance(listed, list | tuple) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in listed
    ):
        return [(item, one) for item, one in listed]
    raise ExfamError(f"`families` must map item codes to families, or be pairs, got {listed!r}.")


FAMILIES: dict[str, type[Family]] = {
    family.name: family
    for family in (
        Bernoulli,
        Binomial,
        Categorical,
        Exponential,
        Gamma,
        Gaussian,
        Histogram,
        NegativeBinomial,
        Ordinal,
        PerItem,
        Poisson,
        StudentT,
    )
}
