"""From the models of a table to its rows: each is fitted once per seed, then measured."""

import copy
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.progress import Progress

from exfam.groups import Groups
from exfam_studies.common.harness import Options
from exfam_studies.common.provenance import changed_parameters
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.common.splits import Splits

# The figures of a fitted model on some groups: metric -> value.
Figures = Mapping[str, float]
Measure = Callable[[Any, Groups], Figures]

N_MEMBERS = 4
FAST_GROUPS = 48
FAST_EPOCHS = 2


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A model of a table: its name there, how it is fitted, what the paper prints of it.

    `fit`: `fit(data, seed=seed)`; `fitter` makes it of an estimator's parameters
    `chance`: whether fits depend on the seed; one fit is enough otherwise
    `n_configurations`: how many were tried before this one was chosen by validation
    `reference_seconds`: CPU seconds that a fit of the authors' code takes
    `ensemble`: whether its fits are also measured together; `fast`: whether a smoke run fits it
    `package`: what must be installed; `most_fits`: how many fits there are at most
    """

    model: str
    fit: Callable[..., Any]
    settings: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    chance: bool = True
    n_configurations: int | None = None
    paper: Mapping[str, float] = field(default_factory=dict)
    reference_seconds: float | None = None
    note: str = ""
    ensemble: bool = False
    package: str | None = None
    fast: bool = True
    most_fits: int | None = None

    @property
    def is_installed(self) -> bool:
        return self.package is None or find_spec(self.package) is not None


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model and its cost: CPU seconds of the whole fit, optimizer steps if it took any."""

    estimator: Any
    cpu_seconds: float
    steps: int | None


@dataclass(frozen=True)
class Job:
    """A part of an experiment: a word for the progress line, and what makes its rows."""

    label: str
    rows: Callable[[], list[Row]]


def fitter(
    kind: Callable[..., Any], parameters: Mapping[str, Any], *, validate: bool = True
) -> Callable[..., Any]:
    """What fits an estimator of these parameters to splits, with a seed if it takes one.

    `validate`: whether the fit chooses anything by the validation part
    """

    def fit(splits: Splits, *, seed: int) -> Any:
        estimator = kind(**parameters)
        if "seed" in estimator.get_params(deep=False):
            estimator.set_params(seed=seed)
        return estimator.fit(splits.train, validation=splits.validation if validate else None)

    return fit


def fit_seeds(contender: Contender, data: Any, *, seeds: int) -> list[Fit]:
    """The contender fitted with seeds 0, 1, …; once if chance plays no part."""
    n_fits = seeds if contender.chance else 1
    return [fit_once(contender, data, seed=seed) for seed in range(n_fits)]


def fit_once(contender: Contender, data: Any, *, seed: int) -> Fit:
    """The contender fitted with one seed; raises KeyboardInterrupt where Ctrl-C cut it short."""
    start = time.process_time()
    estimator = contender.fit(data, seed=seed)
    seconds = time.process_time() - start
    histories = getattr(estimator, "histories_", [])
    if any(history.interrupted for history in histories):
        raise KeyboardInterrupt("a fit was cut short")
    steps = sum(history.steps for history in histories)
    return Fit(estimator, seconds, steps if histories else None)


def ensemble_of(fits: Sequence[Fit]) -> Fit | None:
    """The first fits together, their probabilities averaged; None if there is only one."""
    return joined(fits[:N_MEMBERS]) if len(fits) > 1 else None


def joined(fits: Sequence[Fit]) -> Fit:
    """The members of all fits as one model that costs what they cost together."""
    together = copy.copy(fits[0].estimator)
    together.members_ = [member for fit in fits for member in fit.estimator.members_]
    seconds, steps = sum(fit.cpu_seconds for fit in fits), sum(fit.steps or 0 for fit in fits)
    return Fit(together, seconds, steps)


def fitted_rows(
    contender: Contender, splits: Splits, *, task: str, measure: Measure, seeds: int
) -> list[Row]:
    """The contender fitted with each seed, measured, and compared with the authors' code."""
    fits = fit_seeds(contender, splits, seeds=seeds)
    return rows_of(contender, fits, splits, task=task, measure=measure)


def rows_of(
    contender: Contender, fits: Sequence[Fit], splits: Splits, *, task: str, measure: Measure
) -> list[Row]:
    """One row per metric over the fits, then those of the ensemble and of the speed of a fit."""

    def measured(model: Contender, fits: Sequence[Fit]) -> list[Row]:
        tests = [measure(fit.estimator, splits.test) for fit in fits]
        validations = [measure(fit.estimator, splits.validation) for fit in fits]
        return figure_rows(model, fits, task=task, tests=tests, validations=validations)

    rows = measured(contender, fits)
    if contender.ensemble and (together := ensemble_of(fits)) is not None:
        members = len(together.estimator.members_)
        settings = {**contender.settings, "members": members}
        note, name = f"seeds 0 to {members - 1} together", f"{contender.model}-ensemble"
        ensemble = replace(contender, model=name, settings=settings, note=note, paper={})
        rows += measured(ensemble, [together])
    if (seconds := contender.reference_seconds) is not None:
        note = f"the authors' code took {seconds:g} CPU s"
        timed = replace(contender, note=note, n_configurations=None)
        ratios = [{"cpu-ratio-to-reference": seconds / fit.cpu_seconds} for fit in fits]
        fits = [replace(fit, steps=None) for fit in fits]
        rows += figure_rows(timed, fits, task=task, tests=ratios, validations=[])
    return rows


def figure_rows(
    contender: Contender,
    fits: Sequence[Fit],
    *,
    task: str,
    tests: Sequence[Figures],
    validations: Sequence[Figures],
) -> list[Row]:
    """One row per metric of the figures of each fit on the test and the validation part."""
    rows = [
        row_over_seeds(
            Row(
                task=task,
                model=contender.model,
                settings=contender.settings,
                metric=metric,
                n_configurations=contender.n_configurations,
                paper=contender.paper.get(metric),
                parameters=changed_parameters(fits[0].estimator),
                note=contender.note,
            ),
            values=[figures[metric] for figures in tests],
            validations=[figures[metric] for figures in validations],
            cpu_seconds=[fit.cpu_seconds for fit in fits],
            steps=[fit.steps for fit in fits if fit.steps is not None],
        )
        for metric in tests[0]
    ]
    # Seeds are counted where they matter alone.
    return rows if contender.chance else [replace(row, n_seeds=None) for row in rows]


def gather(jobs: Iterable[Job]) -> list[Row]:
    """The rows of all jobs; Ctrl-C ends with those that are done, or is raised where none is."""
    jobs, console, rows = list(jobs), Console(stderr=True), list[Row]()
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=len(jobs))
        for job in jobs:
            progress.update(bar, description=job.label)
            try:
                rows += job.rows()
            except KeyboardInterrupt:
                if not rows:
                    raise
                console.print(f"interrupted at {job.label}: the rows before it follow")
                break
            progress.advance(bar)
    return rows


def smaller(splits: Splits, options: Options) -> Splits:
    """All groups, or the first few of each part in a smoke run."""
    if not options.fast:
        return splits
    return Splits(**{name: part[:FAST_GROUPS].compact() for name, part in vars(splits).items()})


def training_of(settings: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """An estimator's parameters, cut to a few epochs in a smoke run, without progress lines."""
    short = {"max_epochs": FAST_EPOCHS} if options.fast else {}
    return {**settings, **short, "progress": False}
