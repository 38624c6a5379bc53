"""Files of ratings, of maps and of people: written, read, and their bytes changed."""

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import exfam
from exfam.tables.data.table_files import read_table_file
from fuzz.samples import make, sample_of
from fuzz.values import odd_text, pick
from fuzz.verdicts import check_finite

_PIECES = (
    b"\x00", b'"', b'""', b"'", b",", b";", b"\t", b"\r", b"\n", b"\r\n", b"\xff\xfe", b"\xff",
    b"\xef\xbb\xbf", b"\xc3", b"nan", b"inf", b"-inf", b"1e999", b"1e-320", b"9" * 30, b"1,5", b" ",
    b"=1+1", b"[", b"]", b"{", b"}", b":", b"\\", b"\\u0000", b"\\ud800", b"null", b"NULL", b"-",
    b"2024-13-45", b"15/01/2024", b"x" * 3000, b"\x1a", b"\xe2\x80\xa8", b"#", b"//", b"\x85",
)  # fmt: skip
# A file's name ends in one of these; the last ones belong to no format.
_NAMES = ("{}", "a b{}", "é{}", "a'b{}", "[a]{}", "*{}", "-{}", "{}.gz", "{}.bz2", "{}.txt", "{}x")


def changed_bytes(random: np.random.Generator, content: bytes) -> bytes:
    """The bytes with one to four changes: pieces put in, cut out, doubled, or flipped."""
    for _ in range(int(random.integers(1, 5))):
        start = int(random.integers(0, len(content) + 1))
        stop = min(len(content), start + int(pick(random, (0, 0, 1, 3, 20, 400))))
        kind = random.random()
        if kind < 0.6:
            middle = pick(random, _PIECES)
        elif kind < 0.75:
            middle = content[start:stop] * int(pick(random, (0, 2, 3, 50)))
        elif kind < 0.9:
            middle = bytes(byte ^ (1 << int(random.integers(8))) for byte in content[start:stop])
        else:
            middle = odd_text(random).encode(errors="surrogatepass")
        content = content[:start] + middle + content[stop:]
    return content


def packed(random: np.random.Generator, content: bytes) -> bytes:
    """The bytes as they are, compressed, cut, or in another encoding."""
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: gzip.compress(content),
        lambda: gzip.compress(content)[: int(random.integers(1, 60))],
        lambda: bz2.compress(content),
        lambda: content[: int(random.integers(0, len(content) + 1))],
        lambda: content.decode(errors="replace").encode("utf-16"),
        lambda: content.decode(errors="replace").encode("latin-1", errors="replace"),
        lambda: b"",
    )
    return pick(random, ways)() if random.random() < 0.2 else content


def write_bytes(random: np.random.Generator, folder: Path, content: bytes, *, suffix: str) -> Path:
    """A file of these bytes, at times of an odd name."""
    name = "data{}" if random.random() < 0.7 else pick(random, _NAMES)
    path = folder / name.format(suffix)
    path.write_bytes(content)
    return path


def read_as(random: np.random.Generator, kind: str, path: Path) -> None:
    """Read a file as ratings, maps or people; or fit a small estimator to it."""
    if random.random() < 0.15:
        estimator = make({"groups": "marginal", "fields": "field-climatology"}.get(kind, "cbow"))
        check_finite("score", estimator.fit(str(path)).score(str(path)))
    elif kind == "groups":
        more = {"order": "day", "attributes": ["genre", "gap"], "group_attributes": "age"}
        chosen = {name: value for name, value in more.items() if random.random() < 0.5}
        duplicates = pick(random, ("error", "drop", "keep"))
        _check(
            exfam.read(
                str(path),
                group="user",
                item="movie",
                value="stars",
                duplicates=duplicates,
                **chosen,
            )
        )
    elif kind == "fields":
        _check(
            exfam.read_field(
                str(path), time="day", site="site", coordinates=("lat", "lon"), value="degrees"
            )
        )
    else:
        read_table_file(str(path))


def columns_of(kind: str) -> Any:
    """The rows that files of a kind hold."""
    estimator = {"groups": "efa", "fields": "field-ridge", "tables": "masked-table"}[kind]
    return sample_of(estimator).X


def _check(groups: Any) -> None:
    for name, values in groups.values.items():
        seen = values if groups.observed is None else values[groups.observed]
        check_finite(name, np.asarray(seen, dtype=float))
