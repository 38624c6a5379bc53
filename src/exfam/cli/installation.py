"""A test of an installation: something tiny is read, fitted, saved, loaded and drawn."""

import importlib
import io
import textwrap
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from exfam.files import scratch_folder

_N_USERS, _N_MOVIES = 24, 6
_LONGEST = 400
_REPORT = "Please report it: paste all of this into an issue"
_LOADED = ("torch", "numba", "scipy", "sklearn", "pyarrow", "duckdb", "safetensors", "matplotlib")


@dataclass(frozen=True)
class SelfTestStep:
    """One thing that must work; `state` is what the steps before it left, and `remedy` says what
    to do where it fails."""

    name: str
    run: Callable[[dict[str, Any], Path], None]
    remedy: str


@dataclass(frozen=True)
class SelfTest:
    """What came of it: the steps that worked, the failure, if any, in lines, and CPU seconds."""

    passed: tuple[str, ...]
    failure: tuple[str, ...]
    seconds: float


class MismatchError(AssertionError):
    """Something ran, and its result is wrong."""


def self_test(steps: "tuple[SelfTestStep, ...] | None" = None) -> SelfTest:
    """Do one step after the other in a folder of their own, until one fails.

    >>> self_test((SelfTestStep("count", lambda state, folder: None, "none"),)).passed
    ('count',)
    """
    start, passed, state = time.process_time(), [], dict[str, Any]()
    failure: tuple[str, ...] = ()
    try:
        with scratch_folder() as scratch:
            # The scratch folder is locked, as is the one that a model is saved in while it is.
            folder = scratch / "room"
            folder.mkdir()
            for step in STEPS if steps is None else steps:
                try:
                    step.run(state, folder)
                except Exception as error:
                    failure = _described(step, error)
                    break
                passed.append(step.name)
    except OSError as error:
        failure = (f"no temporary folder: {error}", "Free some space, or set TMPDIR.")
    return SelfTest(tuple(passed), failure, time.process_time() - start)


def _described(step: SelfTestStep, error: Exception) -> tuple[str, ...]:
    """The step, the error, where it was raised, and what to do."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    what = textwrap.shorten(traceback.format_exception_only(error)[-1], _LONGEST)
    where = f"at {frame.filename}:{frame.lineno}, in {frame.name}"
    return f"cannot {step.name}: {what}", where, f"{step.remedy}."


def _load(state: dict[str, Any], folder: Path) -> None:
    for name in _LOADED:
        importlib.import_module(name)


def _compile(state: dict[str, Any], folder: Path) -> None:
    from exfam.kernels.alias import alias_table

    if alias_table(np.array([0.25, 0.75])).shape != (2,):
        raise MismatchError("a compiled loop returned another shape")


def _read(state: dict[str, Any], folder: Path) -> None:
    from exfam.reading.reader import read

    user, movie = np.divmod(np.arange(_N_USERS * _N_MOVIES), _N_MOVIES)
    stars = 1 + (user + movie) % 5
    rows = zip(user.tolist(), movie.tolist(), stars.tolist(), strict=True)
    text = "".join(f"user {u},movie {m},{s}\n" for u, m, s in rows)
    (folder / "ratings.csv").write_text(f"user,movie,stars\n{text}", encoding="utf-8")
    state["columns"] = {"group": "user", "item": "movie", "value": "stars"}
    state["groups"] = read(folder / "ratings.csv", **state["columns"])
    if len(state["groups"]) != _N_USERS:
        raise MismatchError(f"{len(state['groups'])} groups were read of {_N_USERS}")


def _fit(state: dict[str, Any], folder: Path) -> None:
    from exfam.efa.efa import EFA
    from exfam.families import Ordinal

    # The network alone: the simple model inside would have more loops to compile.
    network = EFA(base="none", embed_dim=4, max_epochs=2, progress=False)
    model = network.set_params(**state["columns"], family=Ordinal(5, start=1))
    state["model"] = model.fit(state["groups"])
    if not np.isfinite(model.score(state["groups"])):
        raise MismatchError("the score of a fit is not finite")


def _save(state: dict[str, Any], folder: Path) -> None:
    from exfam.estimator.saving import load

    state["model"].save(folder / "model")
    predicted = state["model"].predict(state["groups"])
    if not np.array_equal(load(folder / "model").predict(state["groups"]), predicted):
        raise MismatchError("a model predicts something else once it is saved and loaded")


def _draw(state: dict[str, Any], folder: Path) -> None:
    from exfam.plots import histogram

    picture = io.BytesIO()
    histogram(state["model"].predict(state["groups"]), label="stars").savefig(picture)
    if not picture.getvalue().startswith(b"\x89PNG"):
        raise MismatchError("a picture is no PNG file")


STEPS = (
    SelfTestStep(
        "load torch and the others", _load, "Install again: pip install --force-reinstall exfam"
    ),
    SelfTestStep(
        "compile a loop", _compile, "Set NUMBA_CACHE_DIR to a folder that you may write to"
    ),
    SelfTestStep(
        "read a file", _read, "Install again: pip install --force-reinstall duckdb pyarrow"
    ),
    SelfTestStep("fit a model", _fit, _REPORT),
    SelfTestStep(
        "save, load and compare", _save, "Free some space, or set TMPDIR to another folder"
    ),
    SelfTestStep(
        "draw", _draw, "Set MPLBACKEND=agg and MPLCONFIGDIR to a folder that you may write to"
    ),
)
