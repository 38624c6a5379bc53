"""Inputs that are wrong in some way, and what a command may do with them."""

import contextlib
import csv
import gzip
import io
import json
import math
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from exfam import cli
from exfam.checks import ExfamWarning
from exfam.cli.signatures import estimator_options
from exfam.estimator.registry import kinds_of

HEADER = ["user", "movie", "time", "stars", "genre"]
ROWS = [
    ["anna", "Alien", "1", "5", "a"],
    ["anna", "Brazil", "2", "3", "b"],
    ["anna", "Dune", "3", "1", "b"],
    ["bert", "Alien", "1", "4", "a"],
    ["bert", "Dune", "2", "2", "b"],
    ["carl", "Brazil", "1", "1", "b"],
    ["carl", "Alien", "2", "2", "a"],
    ["dora", "Dune", "1", "3", "b"],
    ["dora", "Alien", "2", "4", "a"],
]
ODD_CELLS = [
    "", "nan", "inf", "-inf", "1e999", "abc", "1,5", "é", "x" * 70_000, "-3", "0", "2.5", "7",
    "9" * 30, "=1+1", "a\tb", 'say "', '"', "'", "None", "true", "2024-13-45", " ", "\x07",
    "\u2028", "0x10", "1_000", "٣", "\ufeff", "a\nb", "NULL", "-0.0", "1e-320",
]  # fmt: skip
EXTREMES = [
    "1e300",
    "-1e300",
    "1e-300",
    "1e38",
    "3e38",
    "1e20",
    "0",
    "1",
    "-1",
    "",
    "1e-40",
    "16777217",
]
SUFFIXES = [".csv", ".tsv", ".txt", ".parquet", ".jsonl", ".json", ".xlsx", ".csv.gz", "", ".CSV"]
FAMILIES = [
    "gaussian", "poisson", "gamma", "exponential", "bernoulli", "ordinal(5, start=1)",
    "categorical(5, start=1)", "binomial(5)", "binomial(2)", "ordinal(1)", "ordinal(10000)",
    "negative-binomial", "poisson(shift=3)", "zipf", "ordinal", "ordinal(n=-3)",
    "gaussian(scale=0)", "{stars: poisson}", "{price: poisson}", "{stars: {name: ordinal}}",
    "{name: per-item}", "[a]", "ordinal(n=__import__('os'))", "poisson(shift=1e400)",
    "ordinal(n=1e9)", "", "poisson((",
]  # fmt: skip
COLUMNS = [f"`{name}`" for name in HEADER]
LABELS = {"user", "movie", "time", "group", "item", "center", "context", "name", "value"}
OPTIONS = {model: estimator_options(model) for model in kinds_of("groups")}
NAMES = ["user", "movie", "time", "stars", "genre", "nothing", "", "USER", "item", "group", "a b"]
TINY = ["--embed-dim=2", "--head-dim=2", "--n-heads=1", "--n-layers=1", "--head-hidden-dim=2"]
ONE_EPOCH = ["--max-epochs=1", "--validation-fraction=0.25"]


@dataclass(frozen=True)
class Asked:
    """A command line, and words of which an error must have one."""

    words: list[str]
    hints: tuple[str, ...]


def answer(words):
    """The status of a command, its stdout and its stderr."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        # Shown, as to a user, where pytest makes errors of them.
        warnings.simplefilter("always", ExfamWarning)
        status = cli.main(words)
    for stream in (out, err):
        stream.flush()
    return status, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()


def complaints(asked):
    """What is wrong with the answer to a command line, in words; nothing if it is as it should be.

    An error is one line that names something of the input, and a result has finite numbers only.
    """
    status, out, err = answer(asked.words)
    if status == 0:
        return "" if "of probability 0" in err else _not_finite(out)
    if status != 2:
        return f"status {status}"
    if out:
        return f"an error with output {out[:200]!r}"
    if err.count("\n") != 1 or not err.endswith("\n") or not err.startswith("exfam "):
        return f"not one line: {err!r}"
    named = [
        hint
        for hint in (*asked.hints, "`--group`", *COLUMNS, *_options(asked.words))
        if hint and hint in err
    ]
    return "" if named else f"names nothing of the input: {err!r}"


def _options(words):
    """The options given, as they are written and as parameters are named."""
    longs = [word.partition("=")[0] for word in words if word.startswith("--")]
    return [*longs, *(f"`{long[2:].replace('-', '_')}`" for long in longs)]


def _not_finite(out):
    for row in csv.DictReader(io.StringIO(out)):
        for name, cell in row.items():
            with contextlib.suppress(ValueError):
                if name not in LABELS and not math.isfinite(float(cell)):
                    return f"{cell} in column {name} of {out[:500]!r}"
    return ""


@st.composite
def tables(draw):
    """Bytes of a CSV file with something odd about it, or nothing."""
    header, rows = list(HEADER), [list(row) for row in ROWS]
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2]))):
        row, place = draw(st.integers(0, len(rows) - 1)), draw(st.integers(0, 4))
        if place < len(rows[row]):
            rows[row][place] = draw(st.sampled_from(ODD_CELLS))
    change = draw(st.sampled_from(CHANGES))
    header, rows = change(header, rows, draw)
    quoted = draw(st.integers(0, 5)) > 0
    lines = [",".join(_quoted(cell) if quoted else cell for cell in row) for row in (header, *rows)]
    text = draw(st.sampled_from(["\n", "\r\n"])).join(lines) + draw(st.sampled_from(["", "\n"]))
    return draw(st.sampled_from(ENCODINGS))(text, draw)


def _quoted(cell):
    return '"' + cell.replace('"', '""') + '"'


def _ragged(header, rows, draw):
    row = rows[draw(st.integers(0, len(rows) - 1))]
    row.append("more") if draw(st.booleans()) else row.pop()
    return header, rows


def _renamed(header, rows, draw):
    header[draw(st.integers(0, 4))] = draw(st.sampled_from(["movie", "", "Movie", "x" * 5000, "1"]))
    return header, rows


def _one_label(header, rows, draw):
    place = draw(st.integers(0, 4))
    return header, [[*row[:place], "same", *row[place + 1 :]] for row in rows]


def _extreme(header, rows, draw):
    place = draw(st.sampled_from([2, 3, 4]))
    numbers = draw(st.lists(st.sampled_from(EXTREMES), min_size=1, max_size=4))
    for k, row in enumerate(rows):
        row[place : place + 1] = [numbers[k % len(numbers)]]
    return header, rows


def _own_groups(header, rows, draw):
    return header, [[f"u{k}", *row[1:]] for k, row in enumerate(rows)]


CHANGES = [
    lambda header, rows, draw: (header, rows),
    lambda header, rows, draw: (header, rows),
    lambda header, rows, draw: (header, []),
    lambda header, rows, draw: (header, rows[:1]),
    lambda header, rows, draw: (header, rows[:3]),
    lambda header, rows, draw: (header, rows + rows[:2]),
    lambda header, rows, draw: (header[1:], rows),
    lambda header, rows, draw: (rows[0], rows[1:]),
    _extreme,
    _extreme,
    _ragged,
    _renamed,
    _one_label,
    _own_groups,
]
ENCODINGS = [
    *[lambda text, draw: text.encode()] * 20,
    lambda text, draw: text.encode("utf-16"),
    lambda text, draw: text.replace("anna", "ann\xe9").encode("latin-1", "replace"),
    lambda text, draw: b"\xef\xbb\xbf" + text.encode(),
    lambda text, draw: text.encode().replace(b"bert", b"be\x00rt"),
    lambda text, draw: gzip.compress(text.encode())[: draw(st.integers(0, 300))],
    lambda text, draw: draw(st.binary(max_size=200)),
    lambda text, draw: b"",
    lambda text, draw: _as_json(text, draw),
]


def _as_json(text, draw):
    rows = [dict(zip(HEADER, row, strict=True)) for row in ROWS]
    rows[2]["stars"] = draw(st.sampled_from([None, [1], {"a": 1}, True, "x", 1e308, float("nan")]))
    lines = [json.dumps(row) for row in rows]
    lines[draw(st.integers(0, 8))] = draw(st.sampled_from(["{", "[]", "1", "", '{"user": 1}']))
    return "\n".join(lines).encode()


@st.composite
def files(draw, folder):
    """A file, written to a folder."""
    suffix = draw(st.sampled_from(SUFFIXES[:1] * 30 + SUFFIXES))
    file = Path(folder, f"data{suffix}")
    content = draw(tables())
    file.write_bytes(gzip.compress(content) if draw(st.integers(0, 20)) == 7 else content)
    return file


@st.composite
def column_words(draw):
    """Choices of columns, most of them sound."""
    usual = {"group": "user", "order": "time", "item": "movie", "value": "stars"}
    words = []
    for name, column in usual.items():
        fate = draw(st.integers(0, 29))
        if fate == 0:
            column = draw(st.sampled_from(NAMES))
        if fate != 1:
            words += [f"--{name}", column]
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(["attributes", "group-attributes", "position", "known"]))
        words += [f"--{name}", draw(st.sampled_from([*NAMES, "[genre, time]", "[genre, genre]"]))]
    return words


@st.composite
def hyperparameters(draw):
    """A model and two of its options, one of them absurd."""
    model = draw(st.sampled_from(["efa", "efa", "efa", *OPTIONS]))
    option = draw(st.sampled_from(OPTIONS[model]))
    # What only takes long is no bad input.
    slow = option.name in ("n_layers", "max_epochs", "ensemble")
    huge = [] if slow else ["1000000007", str(2**40), str(2**62), str(10**30)]
    numbers = ["-1", "0", "1", "2", "3", "0.5", "1.5", "1e-300", "1e300", "nan", "inf", "-0.0"]
    words = ["", "none", "auto", "causal", "yes", "relative", "rotary", "[1, 2]", "{a: b}", "é"]
    more = ["hard", "penalty", "both", "items", "values", "raw", "concatenate", "mean", "paper"]
    value = draw(st.sampled_from([*numbers, *numbers, *huge, *words, *more]))
    return model, [option.long, value]


CONFIGS = [
    "group: user", "item: movie", "value: stars", "order: time", "embed_dim: 2", "max_epochs: 1",
    "family: {name: ordinal, n: 5, start: 1}", "grup: user", "embed_dim: two", "seed: -1",
    "seed: 1.5", "value: [stars, [time]]", "group: [user, movie]", "family: [1]", "- a",
    "group: {a: b}", "a: b: c", "\tgroup: x", "group: *anchor",
    "seed: !!python/object:os.system {}", "file: 3", "output: [a]", "model: forest",
    "model: marginal", "overwrite: maybe", "dropout: .nan", "? [a, b]\n: c", "seed: 1\nseed: 2",
    "learning_rate: 1e-3", "null: 3", "config: other.yaml", "help: true", "'", "&a [*a]",
    "group: 2020-01-01", "seed: 0x10", "validation_fraction: 1", "print_config: true",
    "<<: {seed: 1}", "order: null",
]  # fmt: skip


@st.composite
def config_texts(draw):
    """Bytes of a configuration, sound or not."""
    lines = draw(st.lists(st.sampled_from(CONFIGS), min_size=1, max_size=4, unique=True))
    ending = draw(
        st.sampled_from([b"", b"", b"", b"\n", b"\xff", b"\x00", b"\n---\na: b", b"\n  - c"])
    )
    return "\n".join(lines).encode() + ending


@st.composite
def damaged(draw, original, folder):
    """A copy of a folder with one file cut, changed, lost, foreign or exchanged."""
    copy = Path(folder, "damaged")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original, copy)
    files = sorted(copy.iterdir())
    file = draw(st.sampled_from(files))
    content = file.read_bytes()
    kind = draw(st.sampled_from(["lost", "cut", "flip", "junk", "swap", "folder", "text", "empty"]))
    if kind == "lost":
        file.unlink()
    elif kind == "folder":
        file.unlink()
        file.mkdir()
    elif kind == "cut":
        file.write_bytes(content[: draw(st.integers(0, max(0, len(content) - 1)))])
    elif kind == "flip" and content:
        at = draw(st.integers(0, len(content) - 1))
        file.write_bytes(content[:at] + bytes([content[at] ^ 0x11]) + content[at + 1 :])
    elif kind == "junk":
        file.write_bytes(draw(st.binary(max_size=100)))
    elif kind == "swap":
        file.write_bytes(
            draw(st.sampled_from(files)).read_bytes() if False else files[0].read_bytes()
        )
    elif kind == "empty":
        file.write_bytes(b"")
    elif kind == "text":
        texts = ["{}", "[]", "null", '{"format": "exfam-model"}', "{" * 2000, '{"format": 1e999}']
        file.write_text(draw(st.sampled_from(texts)))
    return copy
