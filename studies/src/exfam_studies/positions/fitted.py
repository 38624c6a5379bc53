"""Locality and symmetry of fitted models' attention, and encodings chosen by them.

EFA of movies and of baskets, and a linear table model of the cars of "table-autompg", first with
each model's default encoding, then with others. "of" says whose scores a row has: "attention" is
that of the fitted models between the first elements of validation groups, the mean over layers,
heads and seeds; "encoding" that of the encoding by itself. Causal elements see earlier ones alone:
symmetry means nothing and has no rows. "chosen-by-attention" has the locality and raw symmetry
nearest to what the default learned.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.efa.defaults import chosen_of, resolved
from exfam.efa.efa import EFA
from exfam.efa.networks.assemble import EFASettings
from exfam.encodings import EncodingSizes, build_encoding
from exfam.estimator.base import settings_from
from exfam.positions import encoding_weights, own_weights, position_scores, renormalized
from exfam.tables import MaskedTableClassifier
from exfam_studies.common.fits import Contender, Job, fit_once, fitter, gather, smaller, training_of
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import VALIDATION, Measured, metric_rows
from exfam_studies.common.provenance import changed_parameters
from exfam_studies.common.rows import Row
from exfam_studies.common.splits import Splits
from exfam_studies.efa import instacart as efa_instacart
from exfam_studies.efa import movielens_items as efa_movielens_items
from exfam_studies.efa.instacart import instacart_baskets
from exfam_studies.efa.movielens_splits import movielens_items
from exfam_studies.experts.tables.data import auto_mpg
from exfam_studies.positions.figure2 import position_figures

TASKS = (
    "movielens-causal", "movielens-bidirectional", "instacart-causal", "instacart-bidirectional",
    "table-autompg",
)  # fmt: skip
SEEDS = 3
# Their own attention goes from even (none) to that of the nearest neighbors (attenuated-bias).
CANDIDATES = ("none", "learned", "alibi", "rotary", "attenuated-bias", "distance")
FAST_CANDIDATES = ("none", "attenuated-bias")
# Set -> how it is read, settings by direction, and elements to align: every basket has 10, most
# users 20 movies.
GROUPS: dict[str, tuple[Callable[[], Splits], Mapping[tuple[str, str], Mapping[str, Any]], int]] = {
    "movielens": (movielens_items, efa_movielens_items.EFA_SETTINGS, 20),
    "instacart": (instacart_baskets, efa_instacart.EFA_SETTINGS, 10),
}
FAST_LENGTH = 6
# Nothing is chosen in a fit but when to stop.
TABLE_SETTINGS: dict[str, Any] = {"ordinal": True, "extra_masking": 0.0, "categories": "shared"}
TABLE_VALIDATION = 0.25
SCORES = ("position-locality", "position-symmetry", "position-symmetry-raw")
Matrix = Float64[Tensor, "length length"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Task:
    """One set and direction: its default encoding, how one is fitted, and whose weights count.

    `weights`: those of an encoding by itself, of so many positions, in the sizes of `model`
    """

    default: str
    fit: Callable[[str, int], Measured]
    model: Any
    n_positions: int
    weights: Callable[..., Tensor]

    def alone(self, encoding: str) -> Matrix:
        sizes = EncodingSizes(
            n_heads=self.model.n_heads,
            head_dim=self.model.head_dim,
            embed_dim=self.model.embed_dim,
            n_positions=self.n_positions,
            generator=torch.Generator().manual_seed(0),
        )
        built = build_encoding(encoding, sizes)
        return self.weights(built, self.n_positions, head_dim=self.model.head_dim).mean(0)


@dataclass(frozen=True, eq=False)
class _Tried:
    """An encoding: rows of its nats, and the matrices that are scored."""

    nats: list[Row]
    alone: Matrix
    learned: Matrix


def run(options: Options) -> list[Row]:
    """Fit and score every encoding of the wanted tasks."""
    read = cache(lambda kind: smaller(GROUPS[kind][0](), options))
    names = filter(options.wants, TASKS)
    return gather([Job(name, partial(_rows, options, name, read)) for name in names])


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's model that differ from the defaults."""
    kind, _, direction = row.task.partition("-")
    model: Any = MaskedTableClassifier(base="none", **TABLE_SETTINGS)
    if kind in GROUPS:
        model = EFA(**_group_parameters(kind, direction))
    return {**changed_parameters(model), "encoding": str(row.settings["encoding"])}


def _group_parameters(kind: str, direction: str) -> dict[str, Any]:
    common = {"base": "none", "direction": direction, "parts": "items", "support": "hard"}
    return {**common, **GROUPS[kind][1][direction, "exclusion"]}


def _rows(options: Options, name: str, read: Callable[[str], Splits]) -> list[Row]:
    kind, _, direction = name.partition("-")
    is_group, causal = kind in GROUPS, direction == "causal"
    task = _group_task(kind, direction, read(kind), options) if is_group else _table_task(options)
    tried, rows = _tried(name, task, options), list[Row]()
    for own in tried:
        rows += own.nats
        for of, matrix in (("attention", own.learned), ("encoding", own.alone)):
            settings = {**own.nats[0].settings, "of": of}
            rows += [
                Row(task=name, model="model", settings=settings, metric=metric, value=value)
                for metric, value in _scores(matrix, causal=causal).items()
            ]
    best = min(tried, key=lambda own: cast(float, own.nats[0].validation))
    nearest = min(tried, key=lambda own: _apart(own.alone, tried[0].learned, causal=causal))
    by_validation = [replace(row, model="chosen-by-validation") for row in best.nats]
    rows += [replace(row, n_configurations=len(tried)) for row in by_validation]
    return rows + [replace(row, model="chosen-by-attention") for row in nearest.nats]


def _tried(name: str, task: _Task, options: Options) -> list[_Tried]:
    """The default encoding, then the others, with how far their nats are from the default's."""
    candidates = FAST_CANDIDATES if options.fast else CANDIDATES
    tried: list[_Tried] = []
    defaults: list[Measured] = []
    for encoding in dict.fromkeys([task.default, *candidates]):
        fits = [task.fit(encoding, seed) for seed in range(options.n_seeds(SEEDS))]
        defaults, note = (defaults, "") if tried else (fits, "the default")
        row = Row(task=name, model="model", settings={"encoding": encoding}, metric="", note=note)
        compared = list(map(_compared, fits, defaults))
        nats = metric_rows(replace(row, n_configurations=1), compared)
        attention = torch.stack([fit.arrays["attention"] for fit in fits])
        tried.append(_Tried(nats, task.alone(encoding), renormalized(attention.mean(0))))
    return tried


def _compared(fit: Measured, default: Measured) -> Measured:
    figures: dict[str, Any] = {**fit.figures}
    defaults: Mapping[str, Any] = default.figures
    for name in ("nats", VALIDATION + "nats"):
        figures[f"{name}-difference-to-default"] = figures[name] - defaults[name]
    return replace(fit, figures=figures)


def _scores(matrix: Matrix, *, causal: bool) -> dict[str, float]:
    """Metric -> score, in [0, 1]."""
    figures = position_figures(position_scores(matrix))
    return {metric: figures[metric] for metric in (SCORES[:1] if causal else SCORES)}


def _apart(one: Matrix, other: Matrix, *, causal: bool) -> float:
    """Between locality and symmetry of two matrices.

    The raw symmetry: the other turns rounding of nearly equal weights into differences.
    """
    a, b = (_scores(matrix, causal=causal) for matrix in (one, other))
    return float(np.linalg.norm([a[name] - b[name] for name in a if name != "position-symmetry"]))


def _group_task(kind: str, direction: str, splits: Splits, options: Options) -> _Task:
    parameters = _group_parameters(kind, direction)
    length = FAST_LENGTH if options.fast else GROUPS[kind][2]
    training = training_of(parameters, options)

    def fit(encoding: str, seed: int) -> Measured:
        efa = Contender(model="efa", fit=fitter(EFA, {**training, "encoding": encoding}))
        result = fit_once(efa, splits, seed=seed)
        model = result.estimator
        attention = model.position_attention(splits.validation, length=length).mean
        test, validation = model.score(splits.test), model.score(splits.validation)
        nats = {"nats": -test, VALIDATION + "nats": -validation}
        steps = {"steps": result.steps or 0}
        return Measured(nats, {"attention": attention}, steps, result.cpu_seconds)

    weights = partial(own_weights, direction=direction)
    estimator = EFA(**parameters)
    sizes = chosen_of(resolved(estimator, kind="otherwise"), EFASettings)
    model = settings_from(estimator, EFASettings, **sizes)
    # What EFA takes where groups have an order.
    return _Task(default="relative", fit=fit, model=model, n_positions=length, weights=weights)


def _table_task(options: Options) -> _Task:
    cars, training = auto_mpg(), training_of(TABLE_SETTINGS, options)
    order = np.random.default_rng(0).permutation(len(cars.train_y))
    held, kept = np.split(order, [round(TABLE_VALIDATION * len(order))])
    (x, y), (own_x, own_y) = (
        ({column: cells[rows] for column, cells in cars.train.items()}, cars.train_y[rows])
        for rows in (kept, held)
    )
    kinds = {column: cars.levels[column] for column in cars.train}

    def fit(encoding: str, seed: int) -> Measured:
        model = MaskedTableClassifier(
            base="none", **training, kinds=kinds, encoding=encoding, seed=seed
        )
        model.fit(x, y, validation=(own_x, own_y))
        attention = model.position_attention({**own_x, str(model.response_): own_y}).mean
        test, validation = model.log_score(cars.test, cars.test_y), model.log_score(own_x, own_y)
        nats, history = {"nats": -test, VALIDATION + "nats": -validation}, model.history_
        steps = {"steps": history.steps}
        return Measured(nats, {"attention": attention}, steps, history.cpu_seconds)

    model, n = MaskedTableClassifier(base="none", **training), len(cars.train) + 1
    weights = encoding_weights
    return _Task(default=model.encoding, fit=fit, model=model, n_positions=n, weights=weights)
