"""Why a contender cannot take a task."""

from benchmarks.arena.fields.data import FieldData

# North, east and up.
WITH_HEIGHT = 3


def without_height(data: FieldData) -> str | None:
    """Of contenders that take the height of sites for a covariate."""
    return None if data.coordinates.shape[1] == WITH_HEIGHT else "sites have no height"


def no_amounts(data: FieldData) -> str | None:
    """Of contenders that see amounts where others see their logarithms."""
    return "values are no logarithms of amounts" if data.offset is None else None


def at_known_sites(data: FieldData) -> str | None:
    """Of contenders that have numbers for every site of training."""
    return "knows the sites of training alone" if data.new_sites else None
