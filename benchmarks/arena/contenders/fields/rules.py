"""Why a contender cannot take a task."""

from benchmarks.arena.fields.data import FieldData


def at_known_sites(data: FieldData) -> str | None:
    """Of contenders that have numbers for every site of training."""
    return "knows the sites of training alone" if data.new_sites else None
