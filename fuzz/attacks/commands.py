"""Command lines: right ones of all commands, with words changed, put in and left out."""

import contextlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from exfam import cli
from exfam.cli.commands import form_of, split_command
from exfam.estimator.registry import kinds_of
from fuzz.attacks.parameters import is_affordable
from fuzz.files import changed_bytes, columns_of
from fuzz.samples import sample_of
from fuzz.values import odd_value, pick
from fuzz.verdicts import BrokenPromise, NonFinite

_TINY = "--embed-dim 4 --head-dim 2 --n-layers 1 --head-hidden-dim 2 --max-epochs 1"
_RATINGS = "--group user --item movie --value stars"
_FIELD = "--time day --site site --coordinates lat --coordinates lon --value degrees"
# Command lines that are right; outputs are written below the working directory.
_LINES = (
    f"fit ratings.csv {_RATINGS} {_TINY} -o new",
    f"fit ratings.csv {_RATINGS} {_TINY} --order day --attributes genre --family poisson -o new",
    f"fit ratings.csv --model latent-factor {_RATINGS} --dim 2 --max-epochs 1 -o new",
    f"fit ratings.csv --model marginal {_RATINGS} -o new",
    f"fit maps.csv --model field-ridge {_FIELD} -o new",
    f"fit maps.csv --model field-climatology {_FIELD} -o new",
    "fit people.csv --model masked-table --base none --embed-dim 10 --max-epochs 1 -o new",
    "fit people.csv --model masked-table-classifier --target city --fast true -o new",
    "fit words lines.txt --dim 2 --min-count 1 --epochs 1 --threads 1 -o new",
    "fit words lines.txt --model pmi --dim 2 --min-count 1 -o new",
    f"prepare ratings.csv {_RATINGS} -o folder",
    "score model ratings.csv", "score model ratings.csv --per-row --format csv",
    "score maps-model maps.csv", "score people-model people.csv", "score vectors lines.txt",
    "predict model ratings.csv", "predict model ratings.csv --interval 0.8 --format json",
    "predict model ratings.csv --proba --of item -o proba.parquet", "predict maps-model maps.csv",
    "predict people-model people.csv --fill", "recommend model ratings.csv --k 3",
    "explain model ratings.csv", "info model", "info vectors", "info prepared", "info maps-model",
    "report model ratings.csv -o page.html", "neighbors vectors man", "analogy vectors a man dog",
    "convert vectors words.txt", "evaluate words vectors", "reproduce --list",
)  # fmt: skip
_MODELS = ("model", "maps-model", "people-model", "vectors", "prepared")
# Options whose large values are no mistake: a long fit is what they ask for.
_LIMITED = ("epochs", "ensemble", "dim", "layers", "heads", "bins", "orders", "k", "n")


def prepare(folder: Path) -> Path:
    """Files of every kind and models fitted to them."""
    for kind, name in (("groups", "ratings"), ("fields", "maps"), ("tables", "people")):
        columns_of(kind).to_csv(folder / f"{name}.csv", index=False)
    lines = sample_of("skip-gram").X
    (folder / "lines.txt").write_text("\n".join(lines), encoding="utf-8")
    outputs = {0: "model", 4: "maps-model", 7: "people-model", 8: "vectors", 10: "prepared"}
    for number, output in outputs.items():
        words = _LINES[number].split()
        with contextlib.chdir(folder):
            _run([*words[:-1], output])
    return folder


def attack(random: np.random.Generator, shared: Path, folder: Path) -> bool:
    """Run one command line in a folder of its own; whether it was accepted."""
    for entry in shared.iterdir():
        os.symlink(entry, folder / entry.name, target_is_directory=entry.is_dir())
    words = pick(random, _LINES).split()
    if random.random() < 0.3:
        name = pick(random, ("ratings.csv", "maps.csv", "people.csv", "lines.txt"))
        (folder / name).unlink()
        (folder / name).write_bytes(changed_bytes(random, (shared / name).read_bytes()))
    for _ in range(int(random.integers(0, 4))):
        words = _changed(random, words)
    with contextlib.chdir(folder):
        return _run([word for word in words if "\x00" not in word])


def _changed(random: np.random.Generator, words: list[str]) -> list[str]:
    kind, place = random.random(), int(random.integers(1, len(words) + 1))
    if kind < 0.15:
        return words[:place] + words[place + 1 :]
    if kind < 0.25:
        return words[:place] + words[place - 1 :]
    if kind < 0.45:
        return words[:place] + [_value(random)] + words[place + 1 :]
    if kind < 0.55:
        names = ("ratings.csv", "lines.txt", "nothing", ".", "", "*", *_MODELS, *kinds_of("groups"))
        return words[:place] + [pick(random, names)] + words[place + 1 :]
    return [*words, *_option(random, words)]


def _option(random: np.random.Generator, words: list[str]) -> list[str]:
    """One option of the command, with an odd value."""
    name, rest = split_command(words)
    try:
        options = form_of(name, rest).options
    except Exception:  # the words chosen so far name no form: the command itself must say so
        return ["--nothing"]
    option = pick(random, [option for option in options if option.name != "output"])
    value = _value(random)
    if option.name.split("_")[-1] in _LIMITED and value.strip("-").isdigit():
        value = value[:2].lstrip("0123456789") or "2"
    return [option.long, value] if random.random() < 0.7 else [f"{option.long}={value}"]


def _value(random: np.random.Generator) -> str:
    names = ("user", "movie", "stars", "genre", "day", "city", "grade", "[user, day]", "{a: 1}")
    if random.random() < 0.3:
        return pick(random, names)
    value: Any = odd_value(random)
    while not is_affordable(value) or not isinstance(value, str | int | float | list | None):
        value = odd_value(random)
    # Python writes no whole numbers of thousands of digits; slashes could lead out of the folder.
    return str(value).replace("/", "")


def _run(words: list[str]) -> bool:
    """Run a command; raise if it breaks what commands promise; whether its status is 0."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = cli.main(words)
        except SystemExit as error:
            raise BrokenPromise(f"SystemExit({error.code})") from error
    for stream in (out, err):
        stream.flush()
    said = err.buffer.getvalue().decode().splitlines()
    errors = [line for line in said if ": warning: " not in line]
    if status not in (0, 2):
        raise BrokenPromise(f"status {status} of {words}")
    if status == 2 and len(errors) != 1:
        raise BrokenPromise(f"{len(errors)} lines of errors of {words[:2]}")
    if status == 0 and words[0] in ("score", "predict"):
        cells = out.buffer.getvalue().decode().lower().replace(",", " ").split()
        if {"inf", "-inf"} & set(cells) or (words[0] == "score" and "nan" in cells[:40]):
            raise NonFinite(f"numbers of {words[0]}")
    return status == 0
