"""Models of communities, which are fitted and used in Python."""

from typing import Any

from exfam.cli.sorts.base import Sort

_COMMANDS = ("score", "predict", "explain", "recommend", "report")


def _read(model: Any, chosen: Any, *, file: str) -> tuple[str, str]:
    return file, ""


def _facts(model: Any) -> dict[str, Any]:
    """What a fitted community holds."""
    arrays = model.community_.arrays()
    return {
        "species": len(model.species_),
        "family": model.family_,
        "numbers": sum(int(array.size) for array in arrays.values()),
    }


COMMUNITIES = Sort(
    name="communities",
    read=_read,
    facts=_facts,
    answers={},
    instead=dict.fromkeys(_COMMANDS, "Use its methods in Python: exfam.load(MODEL)."),
)
