"""Vectors as safetensors: all vectors of the words in one file, tied matrices stored once.

center      float32, words x dim
context     the same, if there is one
signs       int8, dim, if context vectors are the center's times these
words       uint8, all words in UTF-8, one after the other
word_ends   int64, where each of them ends
"""

import os

import numpy as np

from exfam.checks import DataError
from exfam.files import atomic_path
from exfam.reading.streams import is_packed, opened, written
from exfam.vectors.files.rows import StoredVectors

# One entry: of several the order, and so the bytes of the file, would vary from run to run.
_METADATA = {"exfam-word-vectors": "1"}
_NAMES = {"center", "context", "signs", "words", "word_ends"}


def write_tensors(path: str | os.PathLike[str], stored: StoredVectors) -> None:
    """Write the file beside its path, then rename it in; packed if its name ends in .gz."""
    from safetensors.numpy import save, save_file

    encoded = [word.encode() for word in stored.words]
    tensors: dict[str, np.ndarray] = {
        "center": np.ascontiguousarray(stored.center),
        "words": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        "word_ends": np.cumsum([len(word) for word in encoded], dtype=np.int64),
    }
    if stored.context is not None:
        tensors["context"] = np.ascontiguousarray(stored.context)
    if stored.signs is not None:
        tensors["signs"] = np.ascontiguousarray(stored.signs)
    if str(path).endswith(".gz"):
        with written(path) as file:
            file.write(save(tensors, metadata=_METADATA))
        return
    with atomic_path(path) as beside:
        save_file(tensors, beside, metadata=_METADATA)


def read_tensors(path: str | os.PathLike[str]) -> StoredVectors:
    """What `write_tensors` wrote. Raises DataError for a damaged file, or one of other tensors."""
    tensors = _loaded(path)
    if not {"center", "words", "word_ends"} <= set(tensors) <= _NAMES:
        raise DataError(
            "`path` must hold the tensors center, words, word_ends and maybe context or signs, got "
            f"{', '.join(sorted(tensors))} in {path}. It is a file of something else."
        )
    context, signs = tensors.get("context"), tensors.get("signs")
    return StoredVectors(
        _words(tensors["words"], tensors["word_ends"], path),
        _as("center", tensors["center"], np.float32, 2, path),
        None if context is None else _as("context", context, np.float32, 2, path),
        None if signs is None else _as("signs", signs, np.int8, 1, path),
    )


def _loaded(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load, load_file

    try:
        with opened(path) as file:
            return load(file.read()) if is_packed(path) else load_file(path)
    except SafetensorError as error:
        raise DataError(
            f"`path` must be a whole safetensors file, got a damaged one ({error}) at {path}. "
            "Get it anew."
        ) from error


def _as(
    name: str, tensor: np.ndarray, dtype: type, n_axes: int, path: str | os.PathLike[str]
) -> np.ndarray:
    if tensor.ndim != n_axes or tensor.dtype.kind != np.dtype(dtype).kind:
        raise DataError(
            f"`path` must hold {name} as {np.dtype(dtype).name} of {n_axes} axes, got "
            f"{tensor.dtype.name} of {tensor.ndim} in {path}. It is a file of something else."
        )
    return tensor.astype(dtype, copy=False)


def _words(letters: np.ndarray, ends: np.ndarray, path: str | os.PathLike[str]) -> tuple[str, ...]:
    data = _as("words", letters, np.uint8, 1, path).tobytes()
    stops = _as("word_ends", ends, np.int64, 1, path).tolist()
    starts = [0, *stops[:-1]] if stops else []
    if stops != sorted(stops) or (stops and not 0 <= stops[0] <= stops[-1] == len(data)):
        raise DataError(
            f"`path` must have the ends of its words in rising order up to the last of "
            f"{len(data)} bytes, got others in {path}. Get it anew."
        )
    try:
        return tuple(data[start:stop].decode() for start, stop in zip(starts, stops, strict=True))
    except UnicodeDecodeError as error:
        raise DataError(
            f"`path` must have words in UTF-8, got others ({error}) in {path}. Get it anew."
        ) from error
