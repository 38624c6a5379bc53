"""Locality and symmetry of fitted models' attention, and encodings chosen by them.

EFA of movies and of baskets, and a linear table model of the cars of "table-autompg", first with
each model's default encoding, then with others. "of" says whose scores a row has: "attention" is
that of the fitted models between the first elements of validation groups, the mean over layers,
heads and seeds; "encoding" that of the encoding by itself. Causal elements see earlier ones alone:
symmetry means nothing and has no rows. "chosen-by-attention" has the locality and raw symmetry
nearest to what the default learned.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.efa.efa import EFA
from exfam.encodings import EncodingSizes, build_encoding
from exfam.positions import encoding_weights, own_weights, position_scores, renormalized
from exfam.tables import MaskedTableClassifier
from exfam_studies.common.fits import Contender, Job, fit_once, fitter, gather, smaller, training_of
from exfam_studies.common.harness import Options
from exfam_studies.common.provenance import changed_parameters
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.common.splits import Splits
from exfam_studies.efa import instacart as efa_instacart
from exfam_studies.efa import movielens_items as efa_movielens_items
from exfam_studies.efa.instacart import instacart_baskets
from exfam_studies.efa.movielens_splits import movielens_items
from exfam_studies.experts.tables.data import auto_mpg

TASKS = (
    "movielens-causal", "movielens-bidirectional", "instacart-causal", "instacart-bidirectional",
    "table-autompg",
)  # fmt: skip
SEEDS = 3
# Their own attention goes from even (none) to that of the nearest neighbors (attenuated-bias).
CANDIDATES = ("none", "learned", "alibi", "rotary", "attenuated-bias", "distance")
FAST_CANDIDATES = ("none", "attenuated-bias")
# Set -> settings by direction, and elements to align: every basket has 10, most users 20 movies.
GROUPS: dict[str, tuple[Mapping[tuple[str, str], Mapping[str, Any]], int]] = {
    "movielens": (efa_movielens_items.EFA_SETTINGS, 20),
    "instacart": (efa_instacart.EFA_SETTINGS, 10),
}
FAST_LENGTH = 6
# What EFA takes where groups have an order.
DEFAULT = "relative"
# Nothing is chosen in a fit but when to stop.
TABLE_SETTINGS: dict[str, Any] = {"ordinal": True, "extra_masking": 0.0, "categories": "shared"}
TABLE_VALIDATION = 0.25
SCORES = {
    "locality": "position-locality",
    "symmetry": "position-symmetry",
    "raw_symmetry": "position-symmetry-raw",
}
Matrix = Float64[Tensor, "length length"]


@dataclass(frozen=True, eq=False)
class _Fitted:
    """What came of one fit: nats an element of test and validation, mean attention, its cost."""

    test: float
    validation: float
    attention: Matrix
    seconds: float
    steps: int


@dataclass(frozen=True, kw_only=True, eq=False)
class _Task:
    """One set and direction: its default encoding, how one is fitted, what one is by itself."""

    default: str
    fit: Callable[[str, int], _Fitted]
    alone: Callable[[str], Matrix]


@dataclass(frozen=True, eq=False)
class _Tried:
    """An encoding: its fits, seed by seed, and the matrices that are scored."""

    encoding: str
    fits: Sequence[_Fitted]
    alone: Matrix
    learned: Matrix


def run(options: Options) -> list[Row]:
    """Fit and score every encoding of the wanted tasks."""
    readers = {
        "movielens": cache(lambda: smaller(movielens_items(), options)),
        "instacart": cache(lambda: smaller(instacart_baskets(), options)),
    }
    jobs = []
    for name in filter(options.wants, TASKS):
        kind, _, direction = name.partition("-")
        make = partial(_table_task, options)
        if kind in readers:
            make = partial(_group_task, options, kind, direction, readers[kind])
        jobs.append(Job(name, partial(_rows, options, name, make)))
    return gather(jobs)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's model that differ from the defaults."""
    kind, _, direction = row.task.partition("-")
    model: Any = MaskedTableClassifier(**TABLE_SETTINGS)
    if kind in GROUPS:
        model = EFA(**_group_parameters(kind, direction))
    return {**changed_parameters(model), "encoding": str(row.settings["encoding"])}


def _group_parameters(kind: str, direction: str) -> dict[str, Any]:
    common = {"direction": direction, "parts": "items", "support": "hard"}
    return {**common, **GROUPS[kind][0][direction, "exclusion"]}


def _rows(options: Options, name: str, make: Callable[[], _Task]) -> list[Row]:
    task, causal = make(), name.endswith("causal")
    candidates = FAST_CANDIDATES if options.fast else CANDIDATES
    tried = []
    for encoding in dict.fromkeys([task.default, *candidates]):
        fits = [task.fit(encoding, seed) for seed in range(options.n_seeds(SEEDS))]
        learned = renormalized(torch.stack([fit.attention for fit in fits]).mean(0))
        tried.append(_Tried(encoding, fits, task.alone(encoding), learned))
    first, rows = tried[0], list[Row]()
    for own in tried:
        rows += _nats(name, "model", own, first)
        for of, matrix in (("attention", own.learned), ("encoding", own.alone)):
            settings = {"encoding": own.encoding, "of": of}
            rows += [
                Row(task=name, model="model", settings=settings, metric=metric, value=value)
                for metric, value in _scores(matrix, causal=causal).items()
            ]
    best = min(tried, key=lambda own: np.mean([fit.validation for fit in own.fits]))
    nearest = min(tried, key=lambda own: _apart(own.alone, first.learned, causal=causal))
    rows += _nats(name, "chosen-by-validation", best, first, n_configurations=len(tried))
    return rows + _nats(name, "chosen-by-attention", nearest, first)


def _nats(
    task: str, model: str, tried: _Tried, default: _Tried, *, n_configurations: int = 1
) -> list[Row]:
    """Nats of an encoding, and how far they are from the default's."""
    nats, others = (
        np.array([(fit.test, fit.validation) for fit in own.fits]) for own in (tried, default)
    )
    return [
        row_over_seeds(
            Row(
                task=task,
                model=model,
                settings={"encoding": tried.encoding},
                metric=metric,
                n_configurations=n_configurations,
                note="the default" if tried is default else "",
            ),
            values=of_seeds[:, 0].tolist(),
            validations=of_seeds[:, 1].tolist(),
            cpu_seconds=[fit.seconds for fit in tried.fits],
            steps=[fit.steps for fit in tried.fits],
        )
        for metric, of_seeds in (("nats", nats), ("nats-difference-to-default", nats - others))
    ]


def _scores(matrix: Matrix, *, causal: bool) -> dict[str, float]:
    """Metric -> score, in [0, 1]."""
    scores = position_scores(matrix)
    wanted = ("locality",) if causal else tuple(SCORES)
    return {SCORES[name]: float(np.clip(getattr(scores, name).item(), 0.0, 1.0)) for name in wanted}


def _apart(one: Matrix, other: Matrix, *, causal: bool) -> float:
    """Between locality and symmetry of two matrices.

    The raw symmetry: the other turns rounding of nearly equal weights into differences.
    """
    scores = [_scores(matrix, causal=causal) for matrix in (one, other)]
    names = [name for name in ("position-locality", "position-symmetry-raw") if name in scores[0]]
    return float(np.linalg.norm([scores[0][name] - scores[1][name] for name in names]))


def _group_task(options: Options, kind: str, direction: str, read: Callable[[], Splits]) -> _Task:
    parameters = _group_parameters(kind, direction)
    length = FAST_LENGTH if options.fast else GROUPS[kind][1]
    splits, training, model = read(), training_of(parameters, options), EFA(**parameters)

    def fit(encoding: str, seed: int) -> _Fitted:
        efa = Contender(model="efa", fit=fitter(EFA, {**training, "encoding": encoding}))
        result = fit_once(efa, splits, seed=seed)
        attention = result.estimator.position_attention(splits.validation, length=length)
        return _Fitted(
            test=-result.estimator.score(splits.test),
            validation=-result.estimator.score(splits.validation),
            attention=attention.mean,
            seconds=result.cpu_seconds,
            steps=result.steps or 0,
        )

    def alone(encoding: str) -> Matrix:
        built = build_encoding(encoding, _sizes(model, length))
        return own_weights(built, length, head_dim=model.head_dim, direction=direction).mean(0)

    return _Task(default=DEFAULT, fit=fit, alone=alone)


def _sizes(model: Any, length: int) -> EncodingSizes:
    return EncodingSizes(
        n_heads=model.n_heads,
        head_dim=model.head_dim,
        embed_dim=model.embed_dim,
        n_positions=length,
        generator=torch.Generator().manual_seed(0),
    )


def _table_task(options: Options) -> _Task:
    cars, training = auto_mpg(), training_of(TABLE_SETTINGS, options)
    default = MaskedTableClassifier(**training)
    order = np.random.default_rng(0).permutation(len(cars.train_y))
    held, kept = np.split(order, [round(TABLE_VALIDATION * len(order))])
    (x, y), (own_x, own_y) = (
        ({column: cells[rows] for column, cells in cars.train.items()}, cars.train_y[rows])
        for rows in (kept, held)
    )
    kinds = {column: cars.levels[column] for column in cars.train}

    def fit(encoding: str, seed: int) -> _Fitted:
        model = MaskedTableClassifier(**training, kinds=kinds, encoding=encoding, seed=seed)
        model.fit(x, y, validation=(own_x, own_y))
        return _Fitted(
            test=-model.log_score(cars.test, cars.test_y),
            validation=-model.log_score(own_x, own_y),
            attention=model.position_attention({**own_x, str(model.response_): own_y}).mean,
            seconds=model.history_.cpu_seconds,
            steps=model.history_.steps,
        )

    def alone(encoding: str) -> Matrix:
        n_columns = len(cars.train) + 1
        built = build_encoding(encoding, _sizes(default, n_columns))
        return encoding_weights(built, n_columns, head_dim=default.head_dim).mean(0)

    return _Task(default=default.encoding, fit=fit, alone=alone)
