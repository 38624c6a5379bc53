"""The numbers of word models: a center and a context vector per word, free or tied."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float32

from exfam.kernels.sampled import Vectors

TIES = (None, "reflection", "random", "linear")
# Columns that processors add and multiply at once, and a line of their cache, in float32.
_LANES, _LINE = 8, 16
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class WordMatrices:
    """What is trained, columns padded with zeros to a multiple of 8.

    `context` is None for tied vectors, `signs` (padded with +1) unless they are reflected,
    `transform` (rows padded with zeros to a multiple of 3) unless they are linear.
    """

    dim: int
    center: Float32[np.ndarray, "words padded"]
    context: Float32[np.ndarray, "words padded"] | None = None
    signs: Float32[np.ndarray, "padded"] | None = None
    transform: Float32[np.ndarray, "_ padded"] | None = None

    @property
    def vectors(self) -> Vectors:
        width = self.center.shape[1]
        return Vectors(
            self.center,
            self.center if self.context is None else self.context,
            np.ones(width, np.float32) if self.signs is None else self.signs,
        )

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that training changes."""
        named = {"center": self.center, "context": self.context, "transform": self.transform}
        return {name: array for name, array in named.items() if array is not None}

    @property
    def inputs(self) -> Float32[np.ndarray, "words dim"]:
        return np.ascontiguousarray(self.center[:, : self.dim])

    @property
    def outputs(self) -> Float32[np.ndarray, "words dim"]:
        """Context vectors without padding: own ones, q * w or Q w."""
        if self.context is not None:
            return np.ascontiguousarray(self.context[:, : self.dim])
        if self.signs is not None:
            return self.inputs * self.signs[: self.dim]
        assert self.transform is not None
        return self.inputs @ self.transform[: self.dim, : self.dim].T

    def stored(self) -> dict[str, np.ndarray]:
        """Each number once, without padding: of reflected vectors one matrix and the signs."""
        stored = {"center": self.inputs}
        if self.context is not None:
            stored["context"] = self.outputs
        if self.signs is not None:
            stored["signs"] = self.signs[: self.dim].astype(np.int8)
        if self.transform is not None:
            stored["transform"] = np.ascontiguousarray(self.transform[: self.dim, : self.dim])
        return stored

    @classmethod
    def restored(cls, stored: dict[str, np.ndarray]) -> "WordMatrices":
        """The matrices that `stored` returned."""
        n_words, dim = stored["center"].shape
        names = [name for name in ("center", "context") if name in stored]
        parts: dict[str, Any] = {name: _padded(stored[name], n_words) for name in names}
        if "signs" in stored:
            parts["signs"] = _padded(stored["signs"][None], 1, fill=1)[0]
        if "transform" in stored:
            parts["transform"] = _padded(stored["transform"], _multiple(_multiple(dim, _LANES), 3))
        return cls(dim, **parts)

    def grown(self, n_words: int, *, seed: int) -> "WordMatrices":
        """As many words, the new ones as words are at the start."""
        n_new = n_words - len(self.center)
        new = _start(n_new, self.dim, np.random.default_rng([seed, n_words]))
        center = _padded(np.concatenate([self.inputs, new]), n_words)
        context = None if self.context is None else _padded(self.outputs, n_words)
        return replace(self, center=center, context=context)


def initial_matrices(
    n_words: int, dim: int, *, tie: str | None, positive_share: float, seed: int
) -> WordMatrices:
    """Center vectors uniform in +-1 / (2 dim); context vectors 0, or tied.

    `tie`: None, "reflection" (c = q * w), "random" (the same, each sign drawn), "linear" (c = Q w,
    where Q starts as a random rotation). `positive_share`: of the signs, those that are +1.
    """
    generator = np.random.default_rng(seed)
    center = _aligned(n_words, _multiple(dim, _LANES))
    # A few rows at a time: memory for as much again is not needed.
    for first in range(0, n_words, _ROWS_AT_ONCE):
        some = center[first : first + _ROWS_AT_ONCE, :dim]
        some[...] = _start(len(some), dim, generator)
    if tie is None:
        return WordMatrices(dim, center, context=_aligned(n_words, center.shape[1]))
    if tie == "linear":
        rotation = np.linalg.qr(generator.standard_normal((dim, dim)))[0].astype(np.float32)
        rows = _multiple(center.shape[1], 3)
        return WordMatrices(dim, center, transform=_padded(rotation, rows))
    if tie == "reflection":
        positive = np.arange(dim) < round(positive_share * dim)
    else:
        positive = generator.random(dim) < positive_share
    signs = np.where(positive, 1, -1)
    return WordMatrices(dim, center, signs=_padded(signs[None], 1, fill=1)[0])


def _start(n_words: int, dim: int, generator: np.random.Generator) -> np.ndarray:
    return (generator.random((n_words, dim), np.float32) - np.float32(0.5)) / np.float32(dim)


def _multiple(number: int, of: int) -> int:
    return -(-number // of) * of


def _aligned(n_rows: int, width: int) -> np.ndarray:
    """Zeros that begin at a line of the cache."""
    flat = np.zeros(n_rows * width + _LINE, np.float32)
    start = -flat.ctypes.data % (4 * _LINE) // 4
    return flat[start : start + n_rows * width].reshape(n_rows, width)


def _padded(matrix: np.ndarray, n_rows: int, *, fill: int = 0) -> np.ndarray:
    padded = _aligned(n_rows, _multiple(matrix.shape[1], _LANES))
    padded[...] = fill
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    return padded
