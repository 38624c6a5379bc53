"""Columns of whole numbers packed into words of 64 bits: fewer bytes are sorted and handed over."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Int64

from exfam.columns.columns import numbers_in

_MOST_BITS = 63


@dataclass(frozen=True)
class PackedField:
    """A column as SQL, whose whole numbers are `low` to `high`; None where that is not known."""

    name: str
    sql: str
    low: int | None = None
    high: int | None = None

    @property
    def bits(self) -> int:
        """How many the numbers above `low` need; more than a word has where they are not known."""
        if self.low is None or self.high is None:
            return _MOST_BITS + 1
        return max((self.high - self.low).bit_length(), 1)


@dataclass(frozen=True)
class Word:
    """Fields side by side in a number that sorts as they do, or one field as it is."""

    name: str
    fields: tuple[PackedField, ...]

    @property
    def is_plain(self) -> bool:
        """Whether this is one field as it is."""
        return self.fields[0].bits > _MOST_BITS

    @property
    def sql(self) -> str:
        """The word as SQL."""
        if self.is_plain:
            return self.fields[0].sql
        shifted = (
            f"((CAST({field.sql} AS BIGINT) - ({field.low})) << {shift})"
            for field, shift in zip(self.fields, self._shifts, strict=True)
        )
        return " | ".join(shifted)

    @property
    def _shifts(self) -> list[int]:
        bits = [field.bits for field in self.fields]
        return [sum(bits[k + 1 :]) for k in range(len(bits))]

    def unpacked(self, word: pa.Array) -> dict[str, pa.Array | Int64[np.ndarray, "rows"]]:
        """The fields by name."""
        if self.is_plain:
            return {self.fields[0].name: word}
        numbers, found = numbers_in(word), {}
        for field, shift in zip(self.fields, self._shifts, strict=True):
            own = (numbers >> shift) & ((1 << field.bits) - 1)
            found[field.name] = own + field.low if field.low else own
        return found


def packed(fields: Sequence[PackedField]) -> list[Word]:
    """Words that hold the fields in their order, as few as greed finds."""
    words: list[list[PackedField]] = []
    for field in fields:
        if words and sum(own.bits for own in (*words[-1], field)) <= _MOST_BITS:
            words[-1].append(field)
        else:
            words.append([field])
    return [Word(f"w{k}", tuple(own)) for k, own in enumerate(words)]
