"""What a model was fitted on, as hashes: whether given groups or rows were among it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, UInt64

from exfam.checks import ModelFileError

__all__ = ["Overlap", "Seen", "overlap"]

# Hashes that are kept at most: 2 MB.
_MOST = 2**18


@dataclass(frozen=True, eq=False)
class Overlap:
    """How many of some groups or rows a fit has seen.

    `seen`: 1 for those it has, 0 for the others; NaN where that is not known, because the model
    keeps a sample of its hashes. `expected`: how many of them would be seen by chance alone.
    """

    seen: Float[np.ndarray, "n"]
    expected: float

    @property
    def n_checked(self) -> int:
        """Of how many it is known."""
        return int((~np.isnan(self.seen)).sum())

    @property
    def n_seen(self) -> int:
        """How many of these the fit has seen."""
        return int((self.seen == 1).sum())

    @property
    def is_chance(self) -> bool:
        """Whether new data would have as many: three standard errors at most above `expected`."""
        return self.n_seen <= self.expected + 3 * math.sqrt(self.expected)

    def words(self, what: str) -> str:
        """One sentence, or nothing where none was seen; `what`: "groups", say.

        >>> print(Overlap(np.array([1.0, 1.0, 0.0]), expected=0.0).words("groups"))
        2 of 3 groups are among those that the model was fitted on, or its epoch was chosen by
        """
        if not self.n_seen:
            return ""
        whole = self.n_checked == len(self.seen)
        counts = f"{self.n_seen:,} of {self.n_checked:,} {what}"
        counts += "" if whole else f" (of {len(self.seen):,}, a sample)"
        if self.is_chance:
            return f"{counts} equal some that the model was fitted on, no more than by chance"
        return f"{counts} are among those that the model was fitted on, or its epoch was chosen by"


@dataclass(frozen=True, eq=False)
class Seen:
    """Hashes of what a fit has seen, those that chose its epoch included.

    Rows of a table, and baskets without labels, can be equal by chance. So hashes are kept of those
    alone that were one of a kind in the fit: what is common there says nothing. By chance a new one
    is equal to one of these as often as two of the fit were equal to each other and to no third
    (Good & Turing): with `twice` such pairs among n, the share is 2 `twice` / n. Only where more
    than that were seen are data taken for those of the fit.

    Of many, only hashes whose first `bits` bits are 0 are kept: a sample, the same in all data.
    `n`: groups or rows of the fit whose hashes begin so.
    """

    hashes: UInt64[np.ndarray, "kept"]
    n: int
    twice: int
    bits: int

    @classmethod
    def of(cls, parts: Sequence[UInt64[np.ndarray, "_"]], *, most: int = _MOST) -> "Seen":
        """What a fit to all parts has seen.

        >>> seen = Seen.of([np.array([1, 2, 3, 3], dtype=np.uint64)])
        >>> seen.hashes.tolist(), seen.twice
        ([1, 2], 1)
        """
        hashes = np.concatenate(parts)
        bits = 0
        while len(hashes) > most:
            bits += 1
            hashes = hashes[_begins_with_zeros(hashes, bits)]
        values, counts = np.unique(hashes, return_counts=True)
        return cls(values[counts == 1], len(hashes), int((counts == 2).sum()), bits)

    def among(self, hashes: UInt64[np.ndarray, "n"]) -> Overlap:
        """Which of these the fit has seen, and how many of them chance would explain.

        >>> Seen.of([np.array([1, 2], dtype=np.uint64)]).among(np.array([2, 5], dtype=np.uint64))
        Overlap(seen=array([1., 0.]), expected=0.0)
        """
        known = _begins_with_zeros(hashes, self.bits)
        seen = np.where(known, np.isin(hashes, self.hashes).astype(float), np.nan)
        share = 2 * self.twice / self.n if self.n else 0.0
        return Overlap(seen, share * int(known.sum()))

    def to_config(self) -> dict[str, Any]:
        """All but the hashes, as plain JSON."""
        return {"n": self.n, "twice": self.twice, "bits": self.bits}

    @classmethod
    def from_config(cls, config: Any, hashes: np.ndarray) -> "Seen":
        """What `to_config` wrote. Raises ModelFileError for anything else.

        >>> Seen.from_config({"n": 2, "twice": 0, "bits": 0}, np.array([1, 2])).n
        2
        """
        names = ("n", "twice", "bits")
        numbers = [config.get(name) if isinstance(config, Mapping) else None for name in names]
        for name, number in zip(names, numbers, strict=True):
            if type(number) is not int or number < 0 or (name == "bits" and number > 63):
                raise ModelFileError(
                    f"`seen` must hold a count {name!r} in a saved model, got {number!r}. Save the "
                    "model again."
                )
        if hashes.dtype != np.int64 or hashes.ndim != 1:
            raise ModelFileError(
                f"`seen` must have hashes of 64 bits in a saved model, got {hashes.dtype} of shape "
                f"{hashes.shape}. Save the model again."
            )
        n, twice, bits = (int(number) for number in numbers if number is not None)
        return cls(np.ascontiguousarray(hashes).view(np.uint64), n, twice, bits)


def overlap(model: Any, hashes: UInt64[np.ndarray, "n"]) -> Overlap:
    """Which of these a fitted model has seen; unknown of models that older versions saved.

    >>> overlap(None, np.array([2, 5], dtype=np.uint64)).n_checked
    0
    """
    seen = getattr(model, "seen_", None)
    return Overlap(np.full(len(hashes), np.nan), 0.0) if seen is None else seen.among(hashes)


def _begins_with_zeros(hashes: UInt64[np.ndarray, "n"], bits: int) -> np.ndarray:
    return hashes >> np.uint64(64 - bits) == 0 if bits else np.ones(len(hashes), dtype=bool)
