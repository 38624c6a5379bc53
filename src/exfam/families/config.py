"""Families by name, as plain JSON values and back; those that users write are registered.

Only registered classes are ever built: a file names a family, and cannot have a module imported.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from exfam.checks import ExfamError, ModelFileError, check_choice
from exfam.families.base import FAMILIES, Family
from exfam.families.categories import Categorical, Ordinal
from exfam.families.per_item import PerItem
from exfam.families.real import Scaled

Kind = TypeVar("Kind")

# Beside a family's options, a config holds its name, the module of one that a user wrote, and the
# units of a scaled one.
_RESERVED = ("module", "name", "standardized")


def register_family(kind: Kind) -> Kind:
    """Make a family of your own one that models can be saved with; a decorator of its class.

    Its `name` then stands for it wherever families are named. To load such a model, import the
    module that registers the family first: loading imports nothing that a file names.
    Raises ExfamError unless `kind` is a frozen dataclass with all methods of a family and a name of
    its own.

    >>> from dataclasses import dataclass
    >>> from exfam.families import Binomial
    >>> @register_family
    ... @dataclass(frozen=True)
    ... class Halves(Binomial):
    ...     name = "halves"
    >>> family_to_config(Halves(3))["name"]
    'halves'
    >>> del FAMILIES["halves"]
    """
    if not (isinstance(kind, type) and issubclass(kind, Family)):
        raise ExfamError(f"`kind` must be a class of families, got {kind!r}.")
    if lacking := sorted(getattr(kind, "__abstractmethods__", ())):
        raise ExfamError(
            f"`kind` must have all methods of a family, got {kind.__name__} without {lacking[0]}."
        )
    parameters = getattr(kind, "__dataclass_params__", None)
    if not is_dataclass(kind) or not parameters.frozen:
        raise ExfamError(
            "`kind` must be a frozen dataclass, whose fields are the family's options, got "
            f"{kind.__name__}. Put @dataclass(frozen=True) above it."
        )
    for field in fields(kind):
        if field.name in _RESERVED:
            raise ExfamError(
                f"`kind` must not have an option named {field.name!r}, got one in {kind.__name__}."
            )
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not name:
        raise ExfamError(f"`name` must be the text that stands for {kind.__name__}, got {name!r}.")
    other = FAMILIES.get(name)
    # A cell of a notebook that runs again defines the same class again.
    if other is not None and _path(other) != _path(kind):
        raise ExfamError(
            f"`name` must be one that no other family has, got {name!r} for {_path(kind)}, which "
            f"is {_path(other)}. Choose another name."
        )
    FAMILIES[name] = kind
    return kind


def _path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def family_to_config(family: Family) -> dict[str, Any]:
    """The family's name and options, in types that JSON knows.

    Raises ExfamError for a class that is not registered, and for options that JSON does not keep.
    """
    if isinstance(family, PerItem):
        # Pairs: keys of a JSON object would not distinguish item 1 from item "1".
        listed = [
            [key if isinstance(key, str) else int(key), family_to_config(part)]
            for key, part in family.families.items()
        ]
        default = None if family.default is None else family_to_config(family.default)
        return {"name": family.name, "families": listed, "default": default}
    if isinstance(family, Scaled):
        units = {"center": family.center, "scale": family.scale}
        return {**family_to_config(family.family), "standardized": units}
    kind = type(family)
    if FAMILIES.get(family.name) is not kind:
        raise ExfamError(
            f"`family` must be registered to be saved, got {kind.__name__}, a class of its own. "
            "Put @exfam.register_family above the class, or call "
            f"exfam.register_family({kind.__name__})."
        )
    options = {
        field.name: _of_option(getattr(family, field.name))
        for field in fields(family)  # type: ignore[arg-type]
    }
    if isinstance(family, Categorical | Ordinal) and family.step == 1:
        del options["step"]  # so that what is written reads as it did without steps
    if kind.__module__.startswith("exfam.families."):
        return {"name": family.name, **options}
    plain = {
        key: option.item() if isinstance(option, np.generic) else option
        for key, option in options.items()
    }
    config = {"name": family.name, "module": kind.__module__, **plain}
    try:
        is_kept = family_from_config(json.loads(json.dumps(config, allow_nan=False))) == family
    except (TypeError, ValueError, RecursionError):
        is_kept = False
    if not is_kept:
        raise ExfamError(
            "`family` must have options that come back from JSON as they are (numbers, texts, "
            f"None, tuples of such), got {family!r}."
        )
    return config


def _of_option(option: Any) -> Any:
    return family_to_config(option) if isinstance(option, Family) else option


def _to_option(part: Any) -> Any:
    """An option's value: a family that another is made of, or numbers; JSON knows no tuples."""
    if isinstance(part, Mapping):
        return family_from_config(part)
    return tuple(part) if isinstance(part, list) else part


def family_from_config(config: Mapping[str, Any]) -> Family:
    """The family that `family_to_config` described.

    Raises ExfamError for an unknown name or option, ModelFileError for the name of a family that
    is not registered, or was registered by another module than the one that was saved.
    """
    if not isinstance(config, Mapping) or "name" not in config:
        raise ExfamError(f"`config` must be a dictionary with a name, got {config!r}.")
    if "standardized" in config:
        return _standardized(config)
    kind = _registered(config["name"], config.get("module"))
    options = {key: value for key, value in config.items() if key not in ("module", "name")}
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
        default = options.get("default")
        options = {
            "families": {
                item: family_from_config(part) for item, part in _pairs(options["families"])
            },
            "default": None if default is None else family_from_config(default),
        }
        return kind(**options)
    return kind(**{key: _to_option(part) for key, part in options.items()})


def _registered(name: Any, module: str | None) -> type[Family]:
    """The class of that name; ModelFileError if only its name is that of the one saved."""
    if module is not None and name not in FAMILIES:
        raise ModelFileError(
            f"`family` must be registered before a model with it is loaded, got {name!r} of module "
            f"{module!r}. Import that module, or define the family again, and register it with "
            "exfam.register_family."
        )
    check_choice("name", name, FAMILIES)
    kind = FAMILIES[name]
    # What a script or a notebook defines may come from a module later, and the other way round.
    if module not in (None, kind.__module__) and "__main__" not in (module, kind.__module__):
        raise ModelFileError(
            f"`family` must be the one that the model was saved with, {kind.name!r} of module "
            f"{module!r}, got {_path(kind)}, which is registered by that name. Import {module!r} "
            "in its place."
        )
    return kind


def _standardized(config: Mapping[str, Any]) -> Scaled:
    units = config["standardized"]
    if not isinstance(units, Mapping) or set(units) != {"center", "scale"}:
        raise ExfamError(f"`standardized` must hold a center and a scale, got {units!r}.")
    for name, number in units.items():
        if not isinstance(number, int | float) or isinstance(number, bool):
            raise ExfamError(f"`{name}` must be a number, got {number!r}.")
    plain = {key: value for key, value in config.items() if key != "standardized"}
    return Scaled(family_from_config(plain), float(units["center"]), float(units["scale"]))


def _pairs(listed: Any) -> list[tuple[int | str, Any]]:
    """Items and their families, from pairs or from an object whose keys are codes."""
    if isinstance(listed, Mapping) and all(str(code).isdigit() for code in listed):
        return [(int(code), part) for code, part in listed.items()]
    if isinstance(listed, list | tuple) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in listed
    ):
        return [(item, part) for item, part in listed]
    raise ExfamError(f"`families` must map item codes to families, or be pairs, got {listed!r}.")
