"""What a model was fitted on, as hashes: whether given groups or rows were among it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int64, UInt64

from exfam.checks import ModelFileError
from exfam.columns.results import TabularResult
from exfam.groups import Groups
from exfam.groups.arrange import element_hashes, group_hashes, label_hashes

# Hashes that are kept at most: 2 MB.
_MOST = 2**18


@dataclass(frozen=True, eq=False, repr=False)
class Overlap(TabularResult):
    """How many of some groups or rows a fit has seen.

    `seen`: 1 for those it has, 0 for the others; NaN where that is not known, because the model
    keeps a sample of its hashes. `expected`: how many of them would be seen by chance alone.
    """

    seen: Float[np.ndarray, "n"]
    expected: float

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `row`, `seen`."""
        return {"row": np.arange(len(self.seen)), "seen": self.seen}

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
        """One sentence, or nothing where none was seen; `what`: "groups", say."""
        if not self.n_seen:
            return ""
        whole = self.n_checked == len(self.seen)
        counts = f"{self.n_seen:,} of {self.n_checked:,} {what}"
        counts += "" if whole else f" (of {len(self.seen):,}, a sample)"
        if self.is_chance:
            return f"{counts} equal some that the model was fitted on, no more than by chance"
        return f"{counts} are among those that the model was fitted on, or its epoch was chosen by"


@dataclass(frozen=True, eq=False)
class SeenElements:
    """Hashes of the elements that a fit has seen, each under the label of its group.

    A group that changed a little since, or grew, is known by them: at least half of its elements
    were in the fit under its label. Other data may use the same labels: by chance so many groups
    are taken for known as there are under the label of the group before them. Of many, only those
    of labels whose hashes begin with `bits` bits of 0 are kept.
    """

    hashes: UInt64[np.ndarray, "kept"]
    bits: int

    @classmethod
    def of(
        cls, parts: Sequence[Groups], *, most: int = _MOST, bits: int = 0
    ) -> "SeenElements | None":
        """What a fit to all parts has seen, of labels that begin with so many bits of 0 at least.

        None for groups without labels.
        """
        label, element = np.zeros((2, 0), dtype=np.uint64)
        for groups in parts:
            if groups.group_names is None:
                return None
            for own, hashes, _ in _labelled(groups, label_hashes(groups.group_names)):
                label, element = np.append(label, own), np.append(element, own ^ hashes)
                kept = _begins_with_zeros(label, bits)
                while kept.sum() > most:
                    bits += 1
                    kept = _begins_with_zeros(label, bits)
                label, element = label[kept], element[kept]
        return cls(np.unique(element), bits)

    def among(self, groups: Groups) -> Overlap:
        """Which of these the fit has seen at least half of, and how many chance would explain."""
        assert groups.group_names is not None
        names = label_hashes(groups.group_names)
        seen, by_chance = self._half(groups, names), self._half(groups, np.roll(names, 1))
        known = by_chance[~np.isnan(by_chance)]
        share = float(known.mean()) if len(known) and len(groups) > 1 else 0.0
        return Overlap(seen, share * int((~np.isnan(seen)).sum()))

    def _half(
        self, groups: Groups, names: UInt64[np.ndarray, "groups"]
    ) -> Float[np.ndarray, "groups"]:
        """1 for groups of which half was in the fit under these labels; NaN for labels left out."""
        shares = [np.zeros(0)]
        for own, hashes, lengths in _labelled(groups, names):
            held = np.append(0, np.cumsum(np.isin(own ^ hashes, self.hashes)))
            stop = np.cumsum(lengths)
            shares.append((held[stop] - held[stop - lengths]) / np.maximum(lengths, 1))
        seen = (np.concatenate(shares) >= 0.5).astype(float)
        return np.where(_begins_with_zeros(names, self.bits), seen, np.nan)


@dataclass(frozen=True, eq=False)
class Seen:
    """Hashes of what a fit has seen, those that chose its epoch included.

    Rows of a table, and baskets without labels, can be equal by chance. So hashes are kept of those
    alone that were one of a kind in the fit. By chance a new one is equal to one of these as often
    as two of the fit were equal to each other and to no third (Good & Turing): with `twice` such
    pairs among n, the share is 2 `twice` / n.

    Of many, only hashes whose first `bits` bits are 0 are kept, of `n` that begin so: a sample, the
    same in all data. `elements`: those of groups with labels; older models have none.
    """

    hashes: UInt64[np.ndarray, "kept"]
    n: int
    twice: int
    bits: int
    elements: SeenElements | None = None

    @classmethod
    def of(cls, parts: Sequence[UInt64[np.ndarray, "_"]], *, most: int = _MOST) -> "Seen":
        """What a fit to all parts has seen."""
        hashes = np.concatenate(parts)
        bits = 0
        while len(hashes) > most:
            bits += 1
            hashes = hashes[_begins_with_zeros(hashes, bits)]
        values, counts = np.unique(hashes, return_counts=True)
        return cls(values[counts == 1], len(hashes), int((counts == 2).sum()), bits)

    def with_groups(self, groups: Groups) -> "Seen":
        """What a fit to these groups as well would have seen."""
        hashes = group_hashes(groups)
        hashes = hashes[_begins_with_zeros(hashes, self.bits)]
        values, counts = np.unique(hashes, return_counts=True)
        once = values[counts == 1]
        twice = int((counts == 2).sum() + np.isin(once, self.hashes).sum())
        elements, known = None, self.elements
        if known is not None:
            elements = SeenElements.of([groups], most=groups.n_elements, bits=known.bits)
        if known is not None and elements is not None:
            elements = replace(known, hashes=np.union1d(known.hashes, elements.hashes))
        kept = np.setdiff1d(np.setxor1d(self.hashes, once), values[counts > 1])
        return Seen(kept, self.n + len(hashes), self.twice + twice, self.bits, elements)

    def among(self, hashes: UInt64[np.ndarray, "n"]) -> Overlap:
        """Which of these the fit has seen, and how many of them chance would explain."""
        known = _begins_with_zeros(hashes, self.bits)
        seen = np.where(known, np.isin(hashes, self.hashes).astype(float), np.nan)
        share = 2 * self.twice / self.n if self.n else 0.0
        return Overlap(seen, share * int(known.sum()))

    def to_config(self) -> dict[str, Any]:
        """All but the hashes, as plain JSON."""
        bits = {} if self.elements is None else {"element_bits": self.elements.bits}
        return {"n": self.n, "twice": self.twice, "bits": self.bits} | bits

    def arrays(self) -> dict[str, Int64[np.ndarray, "kept"]]:
        """The hashes by name, as integers that a file may hold."""
        elements = {} if self.elements is None else {"seen_elements": self.elements.hashes}
        return {
            name: array.view(np.int64) for name, array in {"seen": self.hashes, **elements}.items()
        }

    @classmethod
    def from_config(cls, config: Any, arrays: Mapping[str, np.ndarray]) -> "Seen":
        """What `to_config` and `arrays` wrote. Raises ModelFileError for anything else."""
        has_elements = isinstance(config, Mapping) and "element_bits" in config
        names = ("n", "twice", "bits") + (("element_bits",) if has_elements else ())
        numbers = [config.get(name) if isinstance(config, Mapping) else None for name in names]
        for name, number in zip(names, numbers, strict=True):
            if type(number) is not int or number < 0 or (name[-4:] == "bits" and number > 63):
                raise ModelFileError(
                    f"`seen` must hold a count {name!r} in a saved model, got {number!r}. Save the "
                    "model again."
                )
        n, twice, bits = (int(number) for number in numbers[:3] if number is not None)
        elements = None
        if has_elements:
            elements = SeenElements(_stored(arrays, "seen_elements"), int(config["element_bits"]))
        return cls(_stored(arrays, "seen"), n, twice, bits, elements)


def _stored(arrays: Mapping[str, np.ndarray], name: str) -> UInt64[np.ndarray, "kept"]:
    hashes = arrays.get(name, np.zeros(0))
    if hashes.dtype != np.int64 or hashes.ndim != 1:
        raise ModelFileError(
            f"`{name}` must have hashes of 64 bits in a saved model, got {hashes.dtype} of shape "
            f"{hashes.shape}. Save the model again."
        )
    return np.ascontiguousarray(hashes).view(np.uint64)


def seen_groups(parts: Sequence[Groups]) -> Seen:
    """What a fit to all parts has seen."""
    seen = Seen.of([group_hashes(groups) for groups in parts])
    return replace(seen, elements=SeenElements.of(parts))


def overlap_of_groups(model: Any, groups: Groups) -> Overlap:
    """Which groups a fitted model has seen: the same ones, or ones of which it has half."""
    whole = overlap(model, group_hashes(groups))
    elements = None if getattr(model, "seen_", None) is None else model.seen_.elements
    if elements is None or groups.group_names is None:
        return whole
    half = elements.among(groups)
    seen = np.fmax(whole.seen, half.seen)
    # Groups that are the same are no chance, whatever common items make of the others.
    if half.is_chance or np.array_equal(seen, whole.seen, equal_nan=True):
        return whole
    return Overlap(seen, whole.expected + half.expected)


def overlap(model: Any, hashes: UInt64[np.ndarray, "n"]) -> Overlap:
    """Which of these a fitted model has seen; unknown of models that older versions saved."""
    seen = getattr(model, "seen_", None)
    return Overlap(np.full(len(hashes), np.nan), 0.0) if seen is None else seen.among(hashes)


def _labelled(
    groups: Groups, names: UInt64[np.ndarray, "groups"]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Part by part: the name of each element's group, its hash, and the lengths of the groups."""
    first = 0
    for hashes, lengths in element_hashes(groups):
        yield np.repeat(names[first : first + len(lengths)], lengths), hashes, lengths
        first += len(lengths)


def _begins_with_zeros(hashes: UInt64[np.ndarray, "n"], bits: int) -> np.ndarray:
    return hashes >> np.uint64(64 - bits) == 0 if bits else np.ones(len(hashes), dtype=bool)
