"""Vectors as safetensors: all vectors of the words in one file, tied matrices stored once.

center      float32, words x dim
context     the same, if there is one
signs       int8, dim, if context vectors are the center's times these
words       uint8, all words in UTF-8, one after the other
word_ends   int64, where each of them ends
"""

import numpy as np

from exfam.checks import DataError
from exfam.files import atomic_path
from exfam.reading.streams import is_packed, opened, written
from exfam.vectors.files.rows import FilePath, StoredVectors

# One entry: of several the order, and so the bytes of the file, would vary from run to run.
_METADATA = {"exfam-word-vectors": "1"}
# The type of each tensor, and how many axes it has.
_KINDS: dict[str, tuple[type, int]] = {
    "center": (np.float32, 2),
    "context": (np.float32, 2),
    "signs": (np.int8, 1),
    "words": (np.uint8, 1),
    "word_ends": (np.int64, 1),
}


def write_tensors(path: FilePath, stored: StoredVectors) -> None:
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


def read_tensors(path: FilePath) -> StoredVectors:
    """What `write_tensors` wrote. Raises DataError for a damaged file, or one of other tensors."""
    tensors = _loaded(path)
    if not {"center", "words", "word_ends"} <= set(tensors) <= set(_KINDS):
        raise DataError(
            "`path` must hold the tensors center, words, word_ends and maybe context or signs, got "
            f"{', '.join(sorted(tensors))} in {path}. It is a file of something else."
        )
    for name, tensor in tensors.items():
        dtype, n_axes = _KINDS[name]
        if tensor.ndim != n_axes or tensor.dtype.kind != np.dtype(dtype).kind:
            raise DataError(
                f"`path` must hold {name} as {np.dtype(dtype).name} of {n_axes} axes, got "
                f"{tensor.dtype.name} of {tensor.ndim} in {path}. It is a file of something else."
            )
        tensors[name] = tensor.astype(dtype, copy=False)
    words = _words(tensors["words"].tobytes(), tensors["word_ends"].tolist(), path)
    return StoredVectors(words, tensors["center"], tensors.get("context"), tensors.get("signs"))


def _loaded(path: FilePath) -> dict[str, np.ndarray]:
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


def _words(data: bytes, stops: list[int], path: FilePath) -> tuple[str, ...]:
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
