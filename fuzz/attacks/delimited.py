"""CSV and TSV files: good ones whose bytes, dialect, compression or names are changed."""

from pathlib import Path

import numpy as np

from fuzz.files import changed_bytes, columns_of, packed, read_as, write_bytes
from fuzz.spoiling import spoiled_frame
from fuzz.values import pick

_KINDS = ("groups", "fields", "tables")


def prepare(folder: Path) -> None:
    """Read a good file of every kind once."""
    for kind in _KINDS:
        columns_of(kind).to_csv(folder / f"{kind}.csv", index=False)
        read_as(np.random.default_rng(0), kind, folder / f"{kind}.csv")


def attack(random: np.random.Generator, shared: None, folder: Path) -> None:
    """Read one file."""
    kind = pick(random, _KINDS)
    frame = columns_of(kind)
    if random.random() < 0.3:
        frame = spoiled_frame(random, frame)
    separator = pick(random, (",", ",", ",", ";", "\t", "|", " "))
    decimal = pick(random, (".", ".", ","))
    # pandas cannot write every index that spoiling made.
    has_index = random.random() < 0.1 and frame.index.nlevels == 1
    text = frame.to_csv(index=has_index, sep=separator, decimal=decimal)
    content = text.encode(errors="surrogatepass")
    if random.random() < 0.8:
        content = changed_bytes(random, content)
    suffix = pick(random, (".csv", ".csv", ".tsv", ".txt"))
    read_as(random, kind, write_bytes(random, folder, packed(random, content), suffix=suffix))
