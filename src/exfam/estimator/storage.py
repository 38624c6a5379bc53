"""Saved models: a folder of tensors, configuration and vocabulary, whole or not there.

    model.safetensors     parameters and buffers
    vocabulary.parquet    the label of every code, by column
    config.json           format, format version, checksums of all three, the model's configuration

A model is of torch's tensors, or of NumPy's arrays, for which torch is not needed.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError

from exfam.checks import ExfamError, ModelFileError, check_path, is_utf8
from exfam.files import as_path
from exfam.folders import FolderKind, contents_of, read_whole, replacing_folder

_CONFIG, _TENSORS, _VOCABULARY = "config.json", "model.safetensors", "vocabulary.parquet"
_OURS = (_CONFIG, _TENSORS, _VOCABULARY)
_RESTORE = "Restore the folder from a copy, or fit and save the model again."
MODEL = FolderKind("saved model", _CONFIG, "exfam-model", 1, _RESTORE, "path", ModelFileError)

# Bytes that an array of short texts may take.
_MOST_BYTES = 2**31
_LABEL_TYPES = {"str": str, "int": int, "float": float, "bool": bool}
_TABLE = pa.schema(
    {"column": pa.string(), "code": pa.int64(), "label": pa.string(), "label_type": pa.string()}
)


@dataclass(frozen=True, eq=False)
class Stored:
    """What a saved model holds; `tensors`: torch's, or NumPy's arrays."""

    tensors: dict[str, Any]
    config: dict[str, Any]
    vocabulary: dict[str, np.ndarray]


def save_folder(
    path: str | os.PathLike[str],
    *,
    tensors: Mapping[str, Any],
    config: Mapping[str, Any],
    vocabulary: Mapping[str, np.ndarray],
    overwrite: bool = False,
) -> None:
    """Write a model to the folder `path`; `config` is plain JSON, `tensors` torch's or arrays.

    Raises ExfamError if something other than an empty folder is there, unless it is a saved model
    and `overwrite` is True; also if `config` is not JSON, a label is none of str, int, float, bool,
    datetime64, or the disk is full. Whatever was there is then as it was.
    """
    check_path("path", path)
    path = Path(os.path.realpath(as_path(path)))
    check = partial(check_replaceable, overwrite=overwrite)
    try:
        json.dumps(dict(config), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ExfamError(f"`config` must be plain JSON, got {error}.") from error
    try:
        with replacing_folder(path, check=check, ours=_OURS.__contains__) as new:
            _write(new, tensors=tensors, config=config, vocabulary=vocabulary)
    except (OSError, SafetensorError) as error:
        raise ExfamError(
            f"`path` must be where a model can be written, got {path}: {error}. Free some space, "
            "or save it elsewhere; what was there before is as it was."
        ) from error


def load_folder(path: str | os.PathLike[str]) -> Stored:
    """Read what `save_folder` wrote, after checking that every byte is as it was.

    Raises ModelFileError naming the file if the model is missing, damaged, not ours, or of a newer
    version.
    """
    from safetensors.torch import load_file

    return _load(path, load_file)


def load_arrays(path: str | os.PathLike[str]) -> Stored:
    """The same with NumPy's arrays, without torch; raises what `load_folder` raises."""
    from safetensors.numpy import load_file

    return _load(path, load_file)


def _load(path: str | os.PathLike[str], load_file: Callable[[Path], dict[str, Any]]) -> Stored:
    check_path("path", path)
    with model_file_errors(path):
        return read_whole(
            Path(os.path.realpath(as_path(path))), partial(_read, load_file=load_file)
        )


@contextmanager
def model_file_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """ModelFileError for whatever is raised by files that are whole, but not as exfam has them."""
    try:
        yield
    except ModelFileError:  # says already what to do
        raise
    except Exception as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise ModelFileError(
            f"`path` must hold a model as this version saves it, got one in {path} that cannot be "
            f"built ({what}). Load it with the version that saved it, or fit and save it again."
        ) from error


def _read(path: Path, *, load_file: Callable[[Path], dict[str, Any]]) -> Stored:
    document = MODEL.read(path)
    for name in (_TENSORS, _VOCABULARY):
        file = path / name
        if not file.is_file():
            raise ModelFileError(f"Model file {file} must be there, got none. {_RESTORE}")
        if contents_of(file).sha256 != document["files"].get(name):
            raise MODEL.damaged(file)
    tensors = load_file(path / _TENSORS)
    vocabulary = _decode(pq.read_table(path / _VOCABULARY), document["vocabulary"])
    return Stored(tensors=tensors, config=document["config"], vocabulary=vocabulary)


def check_replaceable(path: Path, *, overwrite: bool) -> None:
    """Raise ExfamError if a model may not be saved at `path`."""
    got = "a saved model at {}. Pass overwrite=True to replace it."
    MODEL.check_free(path, overwrite=overwrite, got=got)


def _write(
    folder: Path,
    *,
    tensors: Mapping[str, Any],
    config: Mapping[str, Any],
    vocabulary: Mapping[str, np.ndarray],
) -> None:
    _write_tensors(folder / _TENSORS, tensors)
    pq.write_table(_encode(vocabulary), folder / _VOCABULARY)
    document = {
        "files": {name: contents_of(folder / name).sha256 for name in (_TENSORS, _VOCABULARY)},
        "vocabulary": {
            name: labels.dtype.str if labels.dtype.kind in "biufUM" else "|O"
            for name, labels in vocabulary.items()
        },
        "config": dict(config),
    }
    MODEL.write(folder, document)
    for name in (_TENSORS, _CONFIG):  # which are not written as the umask says
        shutil.copymode(folder / _VOCABULARY, folder / name)


def _write_tensors(file: Path, tensors: Mapping[str, Any]) -> None:
    if all(isinstance(tensor, np.ndarray) for tensor in tensors.values()):
        from safetensors.numpy import save_file as save_arrays

        save_arrays({name: np.ascontiguousarray(array) for name, array in tensors.items()}, file)
        return
    from safetensors.torch import save_file

    # Tensors that share memory are stored apart: the model that loads them ties them again.
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    save_file(whole, file)


def _encode(vocabulary: Mapping[str, np.ndarray]) -> pa.Table:
    rows: list[tuple[str, int, str, str]] = []
    for column, labels in vocabulary.items():
        # As text, dates keep their unit: it is part of the dtype that config.json names.
        plain = labels.astype(str) if labels.dtype.kind == "M" else labels
        for code, label in enumerate(plain.tolist()):
            label = label.item() if isinstance(label, np.generic) else label
            kind = type(label).__name__
            if kind not in _LABEL_TYPES or (kind == "str" and not is_utf8(label)):
                raise ExfamError(
                    f"Labels of {column!r} must be str, int, float, bool or datetime64, got "
                    f"{label!r} of type {kind}. Convert them to one of these."
                )
            rows.append((column, code, label if kind == "str" else repr(label), kind))
    columns = zip(*rows, strict=True) if rows else [[] for _ in _TABLE]
    return pa.table([list(column) for column in columns], schema=_TABLE)


def _decode(table: pa.Table, dtypes: Mapping[str, str]) -> dict[str, np.ndarray]:
    labels: dict[str, list[Any]] = {column: [] for column in dtypes}
    names = table["column"].to_pylist(), table["label"].to_pylist(), table["label_type"].to_pylist()
    for column, label, kind in zip(*names, strict=True):
        labels[column].append(label == "True" if kind == "bool" else _LABEL_TYPES[kind](label))
    vocabulary = {}
    for column, text in dtypes.items():
        dtype = np.dtype(text)
        longest = max((len(label) for label in labels[column] if isinstance(label, str)), default=0)
        size = dtype.itemsize * len(labels[column])
        if dtype.kind not in "biufUMO" or (size > _MOST_BYTES and dtype.itemsize > 4 * longest):
            raise ValueError(f"labels of {column!r} as {text!r}")
        vocabulary[column] = np.empty(len(labels[column]), dtype=dtype)
        vocabulary[column][:] = labels[column]
    return vocabulary
