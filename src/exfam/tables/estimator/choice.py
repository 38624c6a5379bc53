"""Choices that a fit of a table makes by validation on its own rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64

from exfam.estimator.base import settings_from
from exfam.estimator.plain import identified
from exfam.estimator.rules import python_number
from exfam.families import Categorical
from exfam.tables.data import Cells
from exfam.tables.estimator.plan import Recipe, TablePlan
from exfam.tables.networks.assemble import build_masked_table
from exfam.tables.networks.masked_table_model import MaskedCells, MaskedTableModel
from exfam.tables.networks.parts import TableSettings
from exfam.training.history import History
from exfam.training.optimizer import TrainingSettings, choose_device
from exfam.training.precision import rounded
from exfam.training.steps import fit

# Parameters that do not make a fit another one.
_IRRELEVANT = ("progress", "unknown", "decision", "device")

# More rows than this decide nothing more.
MANY_ROWS = 8000
_FEWEST_STEPS, _STEPS_PER_ROOT, _ROWS = 160, 3.5, 15_000
_MOST_DECAY, _DECAY_ROWS = 0.5, 1000
_LEARNING_RATES = {"linear": 1.5e-2, "deep": 5e-3}
# In a deep network each target takes a pass of its own.
_N_TARGETS = {"linear": 8, "deep": 2}


def model_settings(
    estimator: Any, recipes: Sequence[Recipe], *, response: str | None
) -> TableSettings:
    """The choices about the network among an estimator's parameters."""
    masked = estimator.unlabeled == "mask" and response is not None
    return settings_from(
        estimator,
        TableSettings,
        ordinal=tuple(recipe.ordinal for recipe in recipes),
        norm="pre",
        masked_columns=(str(response),) if masked else (),
        positive_in_units=True,
    )


def train_model(
    estimator: Any,
    plan: TablePlan,
    recipes: Sequence[Recipe],
    *,
    weight: np.ndarray | None = None,
    own_orders: bool = False,
    progress: bool,
) -> tuple[MaskedTableModel, History]:
    """One network per recipe, all of the first one's length; `weight`: of each member and row."""
    response = None if plan.response is None else plan.schema.names[plan.response]
    model = build_masked_table(
        plan.schema,
        model_settings(estimator, recipes, response=response),
        families=plan.families,
        cells=plan.cells,
        generator=torch.Generator().manual_seed(int(estimator.seed)),
    ).to(choose_device(estimator.device))
    weight = plan.weight if weight is None else weight
    orders = np.random.default_rng(int(estimator.seed)) if own_orders else None
    history = fit(
        model,
        objective=rounded(objective_of(estimator, plan, recipes), estimator.precision),
        train=model.rows(plan.cells, weight, generator=orders),
        validation=None if plan.validation is None else model.rows(plan.validation),
        settings=schedule(estimator, len(plan.cells), length=recipes[0].length),
        progress=progress,
        checkpoint=identified(plan.checkpoint, estimator, irrelevant=_IRRELEVANT),
    )
    return model, history


def objective_of(estimator: Any, plan: TablePlan, recipes: Sequence[Recipe]) -> MaskedCells:
    """What such a fit minimizes."""
    return MaskedCells(
        response=plan.response,
        response_share=python_number(estimator.response_share),
        extra_masking=tuple(recipe.extra_masking for recipe in recipes),
        masked_as=estimator.masked_as,
        n_targets=int(_or_auto(estimator.n_targets, _N_TARGETS[estimator.network])),
    )


def schedule(estimator: Any, n_rows: int, *, length: int = 1) -> TrainingSettings:
    """Settings of the training, with "auto" by the number of rows.

    An eighth of the rows in a batch, 64 to 256; of long tables a 64th, up to 1,024. 3.5 sqrt(rows)
    steps, at least 160, and at least as many as show 15,000 rows, or have room for them; `length`
    multiplies those of the first 8,000 rows. A prior weighs as 1,000 rows: so does weight decay.
    """
    # A power of 2.
    short, long = (2 ** round(math.log2(max(1.0, n_rows / share))) for share in (8, 64))
    batch_size = max(64, min(256, short), min(1024, long))
    size = int(_or_auto(estimator.batch_size, batch_size))
    longer = length * math.sqrt(min(n_rows, MANY_ROWS))
    steps = max(_FEWEST_STEPS, _STEPS_PER_ROOT * max(math.sqrt(n_rows), longer))
    epochs = max(1, round(steps / math.ceil(n_rows / size)), round(_ROWS / max(n_rows, size)))
    decay = min(_MOST_DECAY, _DECAY_ROWS / n_rows)
    return settings_from(
        estimator,
        TrainingSettings,
        learning_rate=_or_auto(estimator.learning_rate, _LEARNING_RATES[estimator.network]),
        weight_decay=_or_auto(estimator.weight_decay, decay),
        batch_size=size,
        max_epochs=int(_or_auto(estimator.max_epochs, epochs)),
        clip=None,
    )


def _or_auto(value: Any, automatic: int | float) -> Any:
    return automatic if isinstance(value, str) and value == "auto" else python_number(value)


# Of fewer rows every one is held out once.
_FEW_ROWS, _FOLDS = 1000, 5
# How much longer a training may be, each tried if the one before it was better; of no more rows
# than these longer ones gained nothing where measured, and would double what a fit costs.
_LENGTHS, _LONG_ROWS = (3, 9), 2000
# Standard errors by which another recipe must be better than the first.
_N_ERRORS = 2.0
# A share of the cells of training rows that is hidden besides the target, if that is chosen.
_EXTRA_MASKING = 0.5
_CELLS_AT_ONCE = 1 << 16
# What may be added to the log of a scale; first as it was fitted, by which recipes are compared.
_LOG_SCALES = (0.0, *np.linspace(-0.5, 3.0, 71).tolist())


@dataclass(frozen=True)
class Trial:
    """A recipe and its mean log-probability, in nats, of held-out rows.

    `gain`, `error`: by how much it is above that of the first recipe, and its standard error
    `log_scale`: what is best added to the log of the response's scale, by the held-out rows
    """

    recipe: Recipe
    nats: float
    gain: float
    error: float
    log_scale: float = 0.0


def fit_table(
    estimator: Any, plan: TablePlan
) -> tuple[MaskedTableModel, History, tuple[Trial, ...]]:
    """The fitted model, its recipe and how wide the response is chosen by held-out rows."""
    recipes = recipes_of(estimator, plan)
    lengths: Sequence[int] = ()
    if isinstance(estimator.max_epochs, str) and plan.validation is None:
        lengths = _LENGTHS if (_n_scored(plan) > 0).sum() > _LONG_ROWS else ()
    trials: tuple[Trial, ...] = ()
    if len(recipes) > 1 or lengths:
        trials = choose_recipe(estimator, plan, recipes, lengths=lengths)
    recipe = best_recipe(trials) if trials else recipes[0]
    members = [recipe] * int(estimator.ensemble)
    options = {"own_orders": len(members) > 1, "progress": estimator.progress}
    model, history = train_model(estimator, plan, members, **options)
    if trials and plan.response is not None:
        chosen = next(trial for trial in trials if trial.recipe == recipe)
        model.widen(plan.response, chosen.log_scale)
    return model, history, trials


def recipes_of(estimator: Any, plan: TablePlan) -> list[Recipe]:
    """All recipes that the parameters leave open, the one to be preferred first."""
    is_ordered = any(
        isinstance(family, Categorical)
        and column.n_tokens > 2
        and (column.kind == "ordinal" or column.binned)
        for column, family in zip(plan.schema.columns, plan.families, strict=True)
    )
    ordinals = _choices(estimator.ordinal, (True, False))
    masks = _choices(estimator.extra_masking, (0.0, _EXTRA_MASKING))
    ordinals = ordinals if is_ordered else ordinals[:1]
    return [Recipe(bool(o), float(m)) for o, m in product(ordinals, masks)]


def _choices(value: Any, automatic: Sequence[Any]) -> Sequence[Any]:
    return automatic if isinstance(value, str) else [value]


def choose_recipe(
    estimator: Any, plan: TablePlan, recipes: Sequence[Recipe], *, lengths: Sequence[int] = ()
) -> tuple[Trial, ...]:
    """Every recipe's log-probability of rows that it was not fitted to.

    Of fewer than 1,000 rows with a target all are held out once, in five parts; else one fifth is.
    """
    # In random order, those with a target first.
    random = np.random.default_rng([int(estimator.seed), len(plan.cells)])
    order = random.permutation(len(plan.cells))
    scored = _n_scored(plan)[order] > 0
    rows = np.concatenate([order[scored], order[~scored]])[:MANY_ROWS]
    weight = None if plan.weight is None else plan.weight[rows]
    small = replace(plan, cells=plan.cells[rows], weight=weight, validation=None, checkpoint=None)
    n_scored = min(int(scored.sum()), len(rows))
    if n_scored < 2:
        return ()
    row = np.arange(len(small.cells))
    part = np.where(row < n_scored, row % _FOLDS, -1)
    folds = list(range(min(_FOLDS, n_scored))) if n_scored < _FEW_ROWS else [0]
    nats = _held_out(estimator, small, recipes, part=part, folds=folds)
    first = nats[recipes[0]][0]
    trials = [_trial(recipe, nats[recipe], first) for recipe in recipes]
    for length in lengths:
        recipe = replace(best_recipe(trials), length=length)
        nats = _held_out(estimator, small, [recipe], part=part, folds=folds)
        trials.append(_trial(recipe, nats[recipe], first))
        if best_recipe(trials) != recipe:
            break
    return tuple(trials)


def best_recipe(trials: Sequence[Trial]) -> Recipe:
    """The first recipe, unless another is better by more than two standard errors."""
    better = [trial for trial in trials if trial.gain > _N_ERRORS * trial.error]
    return max(better, key=lambda trial: trial.nats, default=trials[0]).recipe


def _held_out(
    estimator: Any,
    plan: TablePlan,
    recipes: Sequence[Recipe],
    *,
    part: Int64[np.ndarray, "rows"],
    folds: Sequence[int],
) -> dict[Recipe, Float64[np.ndarray, "scales held"]]:
    """Nats of the held-out rows by each recipe, for all of `_LOG_SCALES`."""
    members = [(recipe, fold) for recipe in recipes for fold in folds]
    seen = np.stack([part != fold for _, fold in members]).astype(float)
    weight = seen if plan.weight is None else seen * plan.weight
    model, _ = train_model(
        estimator, plan, [recipe for recipe, _ in members], weight=weight, progress=False
    )
    held = np.flatnonzero(np.isin(part, folds))
    nats = _nats(model, plan.cells[held], plan.targets)
    own = np.stack([part[held] == fold for _, fold in members])
    by_recipe = {}
    for k, recipe in enumerate(recipes):
        mine = slice(k * len(folds), (k + 1) * len(folds))
        by_recipe[recipe] = np.where(own[mine], nats[:, mine], 0.0).sum(1)
    return by_recipe


@torch.inference_mode()
def _nats(
    model: MaskedTableModel, cells: Cells, targets: list[int]
) -> Float64[np.ndarray, "scales members rows"]:
    rows, parts = model.rows(cells), []
    for index in rows.sequential_batches(max_tokens=_CELLS_AT_ONCE // model.n_members):
        batch = rows.pad(index).to(next(model.parameters()).device)
        nats = model.log_prob_by_scale(batch, targets, _LOG_SCALES).double()
        parts.append((nats.sum(-1) / batch.present[..., targets].sum(-1)).cpu().numpy())
    return np.concatenate(parts, axis=2)


def _trial(recipe: Recipe, nats: np.ndarray, first: np.ndarray) -> Trial:
    gain, by_scale = nats[0] - first, nats.mean(1)
    error, best = float(gain.std() / len(gain) ** 0.5), _LOG_SCALES[int(by_scale.argmax())]
    return Trial(recipe, float(by_scale[0]), float(gain.mean()), error, log_scale=best)


def _n_scored(plan: TablePlan) -> Int64[np.ndarray, "rows"]:
    return plan.cells.present[:, plan.targets].sum(1)
