"""Theorem 2 of Exponential Family Attention, measured: excess loss by the number of groups F.

To maps of a known model of the theorem's class models of the class are fitted by L-BFGS, from the
known model's neighborhood and from random weights; the one of least training loss is kept.
"excess-loss" is against the known model's loss on maps drawn anew; "slope-excess" the slope of its
logarithm over that of F. The theorem's term, "rate-term", is no bound: O() hides a constant.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from exfam.groups import Batch, Groups
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured, Store, kept_seeds, metric_row
from exfam_studies.common.rows import Row, interval_settings
from exfam_studies.efa.clipped_attention import (
    ClippedFieldNetwork,
    ClippedFieldSizes,
    draw_auto_normal,
    known_clipped_field,
    pulls,
    random_maps,
)
from exfam_studies.efa.generalization import (
    MeasuredFit,
    ModelClass,
    check_theorem_2,
    fit_slope,
    measure_fit,
    model_class,
    parameter_norm,
)

TASKS = ("clipped-field",)
PLOTTED = {"excess-loss": "groups"}
SEEDS = 5
N_GROUPS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
FAST_GROUPS = (8, 16, 32)
# From here on a slope of its own: below, fits have not many more values than numbers to fit.
LARGE = 256
N_SITES, N_HELD_OUT, FAST_HELD_OUT = 4, 4000, 200
# Six standard deviations of a value given the others, and more: the bound cuts next to nothing off.
VALUE_BOUND, TOKEN_BOUND, NORM_BOUND = 8.0, 50.0, 15.0
ATTRACTION, REPULSION = 1.29, 0.645
N_RANDOM_STARTS, N_STEPS, FAST_STEPS = 2, 400, 30
SIZES = ClippedFieldSizes(
    n_dims=2, place_dim=2, place_hidden_dim=4, n_heads=2, feed_forward_dim=2,
    token_bound=TOKEN_BOUND, value_bound=VALUE_BOUND,
)  # fmt: skip
_MODEL = "relu-attention"
_HELD_OUT_SEED = 10**6
_PENALTY = 0.1
# Model and metric -> what the store calls the figure.
_FIGURES = {
    (_MODEL, "excess-loss"): "excess",
    (_MODEL, "change-of-sampled-loss"): "sampled",
    (_MODEL, "change-of-training-loss"): "training_gap",
    ("mean-of-others", "excess-loss"): "others",
    ("zero", "excess-loss"): "zero",
}


def run(options: Options) -> list[Row]:
    """Fit models to ever more groups, and measure what they lose against the known one."""
    store, n_seeds = Store(options.folder), options.n_seeds(SEEDS)
    full, fast = (N_GROUPS, N_STEPS, N_HELD_OUT), (FAST_GROUPS, FAST_STEPS, FAST_HELD_OUT)
    sizes, n_steps, n_held_out = fast if options.fast else full
    of = model_class(_known(), norm_bound=NORM_BOUND)
    fits: list[MeasuredFit] = []

    def rows_of(n_groups: int) -> list[Row]:
        names = (TASKS[0], f"steps-{n_steps}", f"groups-{n_groups}")
        measure = partial(_measure, n_groups, n_steps, n_held_out)
        kept = kept_seeds(store, names, n_seeds, measure)
        for own in kept:
            numbers: dict[str, Any] = {f.name: own.figures[f.name] for f in fields(MeasuredFit)}
            fits.append(MeasuredFit(**{**numbers, "n_groups": n_groups}))
        return _rows(n_groups, kept, of)

    rows = gather([Job(f"{n} groups", partial(rows_of, n)) for n in sizes]) + _slopes(fits, of)
    fit = {"norm_bound": NORM_BOUND, "n_steps": n_steps, "n_starts": N_RANDOM_STARTS}
    parameters = {"network": "clipped field", **asdict(SIZES), **fit}
    return [replace(row, parameters=parameters) if row.model == _MODEL else row for row in rows]


def _measure(n_groups: int, n_steps: int, n_held_out: int, seed: int) -> Measured:
    """Figures of one fit to `n_groups` maps; no two fits share a map."""
    known, train = _known(), simulated_maps(n_groups, seed=n_groups * 1000 + seed)
    held_out = simulated_maps(n_held_out, seed=_HELD_OUT_SEED)
    fitted = least_loss_fit(_starts(known, seed), train, n_steps=n_steps, norm_bound=NORM_BOUND)
    figures = asdict(measure_fit(fitted, known, train=train, held_out=held_out))
    return Measured({**figures, **_baselines(train, held_out)})


def _rows(n_groups: int, kept: Sequence[Measured], of: ModelClass) -> list[Row]:
    rows, settings = [], {"groups": n_groups}
    for (model, metric), name in _FIGURES.items():
        row = Row(task=TASKS[0], model=model, settings=settings, metric=name)
        row = replace(metric_row(row, kept), metric=metric)
        rows.append(row if model == _MODEL else replace(row, cpu_seconds=None))
    rate, task = of.rate_term(n_groups), TASKS[0]
    row = Row(task=task, model="theorem-2", settings=settings, metric="rate-term", value=rate)
    return [*rows, row]


def _slopes(fits: Sequence[MeasuredFit], of: ModelClass) -> list[Row]:
    """Of all sizes, and of the large ones, if there are enough of them."""
    rows: list[Row] = []
    for least in (0, LARGE):
        some = [fit for fit in fits if fit.n_groups >= least]
        sizes = np.array([fit.n_groups for fit in some])
        if len(set(sizes.tolist())) < 2 or len(some) < 3:
            continue
        slope = fit_slope(sizes, np.array([fit.excess for fit in some]))
        settings = {"groups-from": int(sizes.min()), **interval_settings(slope)}
        row = Row(task=TASKS[0], model=_MODEL, metric="slope-excess", value=slope.mean)
        rows.append(replace(row, settings=settings))
    if not rows:
        return []
    check = check_theorem_2(fits, of)
    failed = "; ".join((*check.failed_assumptions, *check.failed_conclusions))
    theory = Row(task=TASKS[0], model="theorem-2", metric="slope-rate-term", value=-0.5)
    return [replace(theory, note=failed or "nothing contradicts theorem 2"), *rows]


def least_loss_fit(
    starts: Sequence[ClippedFieldNetwork], train: Groups, *, n_steps: int, norm_bound: float
) -> ClippedFieldNetwork:
    """Of models trained from each start by L-BFGS on all groups, the one of least training loss.

    A penalty keeps the norm at `norm_bound`, about; what is left above it is scaled away.
    """
    batch = train.pad(np.arange(len(train)))
    return min(
        (_minimized(start, batch, n_steps, norm_bound) for start in starts),
        key=lambda model: float(_loss(model, batch).detach()),
    )


def _minimized(
    start: ClippedFieldNetwork, batch: Batch, n_steps: int, norm_bound: float
) -> ClippedFieldNetwork:
    model = copy.deepcopy(start)
    optimizer = torch.optim.LBFGS(
        model.parameters(),
        max_iter=n_steps,
        history_size=30,
        tolerance_grad=1e-9,
        tolerance_change=1e-12,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        beyond = (parameter_norm(model) - norm_bound).relu()
        loss = _loss(model, batch) + _PENALTY * beyond.square()
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        # The norm is proportional to the weights.
        share = (norm_bound / parameter_norm(model)).clamp_max(1.0)
        for parameter in model.parameters():
            parameter.mul_(share)
    return model


def _loss(model: ClippedFieldNetwork, batch: Batch) -> Tensor:
    value = batch.values[model.column].double()
    return 0.5 * (value - model.eta(batch)[..., 0]).square().mean()


def _starts(known: ClippedFieldNetwork, seed: int) -> list[ClippedFieldNetwork]:
    """Near the known model, so that zeros may move, and random ones."""
    generator = torch.Generator().manual_seed(seed)
    near = copy.deepcopy(known)
    with torch.no_grad():
        for parameter in near.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter.add_(0.05 * noise)
    random = [
        ClippedFieldNetwork(SIZES, column=known.column, generator=generator).double()
        for _ in range(N_RANDOM_STARTS)
    ]
    return [near, *random]


def simulated_maps(n_maps: int, *, seed: int) -> Groups:
    """Maps of the known model, values drawn from the distribution of its conditionals."""
    maps = random_maps(n_maps, N_SITES, n_dims=SIZES.n_dims, seed=seed)
    pull = pulls(_known(), maps.pad(np.arange(n_maps))).numpy()
    # Of another stream than the sites.
    values = draw_auto_normal(pull, bound=VALUE_BOUND, seed=seed + 10**9)
    return replace(maps, values={"value": values.ravel()})


def _baselines(train: Groups, held_out: Groups) -> Mapping[str, float]:
    """Excess losses of predicting 0, and of the others' mean times one fitted number."""
    best = _known().eta(held_out.pad(np.arange(len(held_out))))[..., 0].detach().numpy()
    parts = [groups.values["value"].reshape(-1, N_SITES) for groups in (train, held_out)]
    others, others_of_held_out = (
        (value.sum(axis=1, keepdims=True) - value) / (N_SITES - 1) for value in parts
    )
    factor = float((parts[0] * others).sum() / np.square(others).sum())
    away = best - factor * others_of_held_out
    return {"zero": 0.5 * float(np.square(best).mean()), "others": 0.5 * float((away**2).mean())}


@cache
def _known() -> ClippedFieldNetwork:
    return known_clipped_field(SIZES, attraction=ATTRACTION, repulsion=REPULSION, column="value")
