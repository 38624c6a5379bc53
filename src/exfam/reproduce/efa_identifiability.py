"""Whether fits of one model have the same embeddings: Theorem 1 of Exponential Family Attention.

Context embeddings H of test contexts and center embeddings delta of fits that differ in their seed
alone are compared up to one affine map, found from one half of the contexts and judged on the other
and on the items. "against" says with what: "seeds" (all pairs of fits), "truth" (of simulated data,
forward from it), "shuffled-items" (the other fit with its items' names shuffled, in contexts as at
the head) and "shuffled-contexts" (each context another's): nulls. `sd` is over pairs, of which
several share a fit. "alike-" figures are 1 where the theorem's conclusion is exact; its premise,
the same conditionals, is told by "divergence-nats" (0 where it is exact).

The task "identifiability-values" is the other half of the theorem, which fails: see
`exfam.analysis.identifiability.values`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from exfam.analysis.identifiability import (
    Alignment,
    BothWays,
    ItemEmbeddings,
    align,
    check_values,
    context_diversity,
    failed_diversity,
    item_diversity,
    item_embeddings,
    mean_divergence,
    shift_diversity,
    shuffled_contexts,
    shuffled_names,
    value_counterexample,
)
from exfam.data.public_sets.instacart import instacart_baskets
from exfam.data.public_sets.movielens import movielens_items
from exfam.data.public_sets.splits import Splits
from exfam.data.simulators import AttentionProcess, draw_attention_process
from exfam.estimators.efa import EFA
from exfam.groups import Groups
from exfam.plots import agreement_curves
from exfam.reproduce.efa_movielens_items import EFA_SETTINGS, SPLIT_SEED
from exfam.reproduce.fits import (
    Contender,
    Fit,
    Job,
    figure_rows,
    fit_seeds,
    gather,
    seeded,
    smaller,
    training_of,
)
from exfam.reproduce.harness import Options
from exfam.reproduce.rows import Row, row_over_seeds

__all__ = ["TASKS", "plot", "run"]

TASK = "identifiability-"
TASKS = tuple(TASK + name for name in ("simulated", "movielens", "instacart", "values"))

# The simulated truth: few enough dimensions for few items.
N_ITEMS, DIM, LENGTH = 20, 4, 10
PROCESS_SEED, TRAIN_SEED, VALIDATION_SEED, TEST_SEED = 0, 1, 98, 99
N_VALIDATION, N_TEST = 500, 1_000
# Groups -> training of that size. Learning rate, batches and decay were chosen by validation nats
# at 400, 1,600 and 6,400 groups; a decay of 0.1 loses directions.
SIZES: dict[int, dict[str, Any]] = {
    100: {"batch_size": 16, "max_epochs": 120},
    400: {"batch_size": 16, "max_epochs": 60},
    1_600: {"batch_size": 64, "max_epochs": 60},
    6_400: {"batch_size": 64, "max_epochs": 30},
    25_600: {"batch_size": 128, "max_epochs": 15},
}
FAST_SIZES = (100, 400)
N_CONFIGURATIONS = {"simulated": 11, "movielens": 14, "instacart": 1}
# The theorem speaks of networks whose output is free: no layer norm, and all items everywhere.
PLAIN: dict[str, Any] = {"support": "none", "connection": "residual", "patience": 1_000}
SIMULATED: dict[str, Any] = {
    **PLAIN, "direction": "causal", "embed_dim": DIM, "n_layers": 1, "dropout": 0.0,
    "weight_decay": 0.0, "learning_rate": 0.03,
}  # fmt: skip
# Where the theorem does not speak: too many dimensions for the items, contexts in a plane, more
# dimensions than the truth has.
VARIANTS: dict[str, dict[str, Any]] = {
    "dims-8": {"embed_dim": 2 * DIM},
    "dims-24": {"embed_dim": N_ITEMS + 4},
    "layer-norm": {"connection": "pre-norm"},
}
VARIANT_SIZE = 6_400

MOVIELENS: dict[str, dict[str, Any]] = {
    "plain": {
        **PLAIN, "embed_dim": 16, "conditional": "static", "dropout": 0.2, "weight_decay": 0.01,
        "learning_rate": 0.02, "batch_size": 16, "max_epochs": 60,
    },
    # As in "efa-movielens-items": a layer norm before the head.
    "layer-norm": {
        **EFA_SETTINGS["bidirectional", "all"], "support": "none", "conditional": "static",
        "patience": 1_000,
    },
}  # fmt: skip
MOVIELENS_SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
INSTACART: dict[str, dict[str, Any]] = {
    "plain": {
        **PLAIN, "embed_dim": 16, "conditional": "static", "dropout": 0.0, "weight_decay": 0.01,
        "learning_rate": 0.02, "batch_size": 128, "max_epochs": 15,
    },
}  # fmt: skip
INSTACART_SHARES = (1 / 16, 1 / 4, 1.0)
SEEDS = {"simulated": 5, "movielens": 5, "instacart": 3}
FAST_SHARES = 2
# Nulls are drawn with this seed.
NULL_SEED = 7


@dataclass(frozen=True, eq=False)
class _Case:
    """Fits of one model to data of one size, and what is known of the truth at the test contexts.

    `size`: what is told of it: groups, or share of the training groups
    """

    task: str
    splits: Splits
    parameters: Mapping[str, Any]
    size: Mapping[str, str | int | float]
    n_configurations: int
    truth: ItemEmbeddings | None = None
    bayes: Mapping[str, float] = field(default_factory=dict)


def run(options: Options) -> list[Row]:
    """Fit, compare and tell what the theorem assumes, for the wanted tasks."""
    jobs: list[Job] = []
    for task, cases in _CASES.items():
        if options.wants(task):
            n_seeds = max(2, options.n_seeds(SEEDS[task.removeprefix(TASK)]))
            for case in cases(options):
                label = " ".join([task, *map(str, case.size.values())])
                jobs.append(Job(label, partial(_rows, case, options, n_seeds)))
    if options.wants(TASK + "values"):
        jobs.append(Job(TASK + "values", _value_rows))
    return gather(jobs)


def plot(rows: list[Row], folder: Path) -> None:
    """How alike fits are by the size of their data, beside the nulls; one picture a task."""
    for task in TASKS:
        shown = [row for row in rows if row.task == task and row.settings.get("model") == "plain"]
        curves = {
            (against, metric): [
                row
                for row in shown
                if row.settings.get("against") == against and row.metric == metric
            ]
            for against in ("truth", "seeds", "shuffled-items")
            for metric in PLOTTED
        }
        curves = {name: of for name, of in curves.items() if of}
        if curves:
            _draw(curves, folder / f"efa-{task}.png")


PLOTTED = {"alike-context": "contexts", "alike-centers": "centers"}


def _draw(curves: Mapping[tuple[str, str], Sequence[Row]], path: Path) -> None:
    first = next(iter(curves.values()))
    figure = agreement_curves(
        np.array([float(row.settings["groups"]) for row in first]),
        {
            f"{PLOTTED[metric]}, {against.replace('-', ' ')}": np.array(
                [[row.value, row.sd or 0.0] for row in of], dtype=float
            )
            for (against, metric), of in curves.items()
        },
        size_name="training groups",
    )
    figure.savefig(path, format="png", dpi=120, facecolor="white")


def _simulated(options: Options) -> list[_Case]:
    process = draw_attention_process(N_ITEMS, dim=DIM, seed=PROCESS_SEED)
    draw = partial(process.draw, length=LENGTH)
    validation = draw(N_VALIDATION, seed=VALIDATION_SEED)
    test = draw(N_TEST, seed=TEST_SEED)
    truth = _truth(process, test)
    sizes = FAST_SIZES if options.fast else tuple(SIZES)
    variant_size = sizes[-1] if options.fast else VARIANT_SIZE
    wanted = [("plain", size) for size in sizes] + [(name, variant_size) for name in VARIANTS]
    return [
        _Case(
            task=TASK + "simulated",
            splits=Splits(draw(size, seed=TRAIN_SEED), validation, test),
            parameters={**SIMULATED, **SIZES[size], **VARIANTS.get(name, {})},
            size={"model": name, "groups": size},
            n_configurations=N_CONFIGURATIONS["simulated"],
            truth=truth,
            bayes={"nats": -float(process.log_prob(test).mean())},
        )
        for name, size in wanted
    ]


def _truth(process: AttentionProcess, groups: Groups) -> ItemEmbeddings:
    group = np.repeat(np.arange(len(groups)), groups.stop - groups.start)
    return ItemEmbeddings(process.contexts(groups), process.center, process.bias, group)


def _movielens(options: Options) -> list[_Case]:
    return _shares(
        TASK + "movielens",
        smaller(movielens_items("correct", seed=SPLIT_SEED), options),
        models=MOVIELENS,
        shares=MOVIELENS_SHARES,
        options=options,
    )


def _instacart(options: Options) -> list[_Case]:
    return _shares(
        TASK + "instacart",
        smaller(instacart_baskets("paper"), options),
        models=INSTACART,
        shares=INSTACART_SHARES,
        options=options,
    )


def _shares(
    task: str,
    splits: Splits,
    *,
    models: Mapping[str, Mapping[str, Any]],
    shares: Sequence[float],
    options: Options,
) -> list[_Case]:
    """Cases of the first part of the training groups in random order, small ones in large ones."""
    order = np.random.default_rng(TRAIN_SEED).permutation(len(splits.train))
    cases = []
    for name, parameters in models.items():
        for share in shares[-FAST_SHARES:] if options.fast else shares:
            n = round(share * len(order))
            # Fewer groups are fewer steps a pass: between as many passes and as many steps.
            epochs = round(parameters["max_epochs"] / share**0.5)
            cases.append(
                _Case(
                    task=task,
                    splits=replace(splits, train=splits.train[order[:n]]),
                    parameters={**parameters, "max_epochs": epochs},
                    size={"model": name, "groups": n},
                    n_configurations=N_CONFIGURATIONS[task.removeprefix(TASK)],
                )
            )
    return cases


_CASES: dict[str, Callable[[Options], list[_Case]]] = {
    TASK + "simulated": _simulated,
    TASK + "movielens": _movielens,
    TASK + "instacart": _instacart,
}


def _rows(case: _Case, options: Options, n_seeds: int) -> list[Row]:
    """Fit `n_seeds` models, compare all pairs."""
    contender = Contender(
        model="efa",
        settings={**case.size, "dims": int(case.parameters.get("embed_dim", 32))},
        build=seeded(EFA, training_of(case.parameters, options)),
        n_configurations=case.n_configurations,
    )
    fits = fit_seeds(contender, case.splits, seeds=n_seeds)
    tests, validations = (
        [{"nats": -fit.estimator.score(groups)} for fit in fits]
        for groups in (case.splits.test, case.splits.validation)
    )
    told = [_told(fit, case.splits.test) for fit in fits]
    rows = figure_rows(contender, fits, task=case.task, tests=tests, validations=validations)
    rows += [
        Row(task=case.task, model="bayes", settings=case.size, metric=metric, value=value)
        for metric, value in case.bayes.items()
    ]
    rows += _diversity_rows(case, contender, told)
    for against, pairs in _pairs(case, fits, told).items():
        rows += _comparison_rows(case, contender, against, pairs, len(fits))
    return rows


def _told(fit: Fit, groups: Groups, *, shuffled: bool = False) -> ItemEmbeddings:
    model = fit.estimator.members_[0]
    names = shuffled_names(model.item_part.n_items, seed=NULL_SEED) if shuffled else None
    return item_embeddings(model, groups, names=names)


Pairs = Sequence[tuple[ItemEmbeddings, ItemEmbeddings]]


def _pairs(case: _Case, fits: Sequence[Fit], told: Sequence[ItemEmbeddings]) -> dict[str, Pairs]:
    """What is compared with what, by what it is compared against."""
    shuffled = [_told(fit, case.splits.test, shuffled=True) for fit in fits]
    mixed = [shuffled_contexts(each, seed=NULL_SEED) for each in told]
    pairs: dict[str, Pairs] = {
        "seeds": list(combinations(told, 2)),
        "shuffled-items": [(told[i], shuffled[j]) for i, j in combinations(range(len(told)), 2)],
        "shuffled-contexts": [(told[i], mixed[j]) for i, j in combinations(range(len(told)), 2)],
    }
    if case.truth is not None:
        pairs["truth"] = [(case.truth, each) for each in told]
    return pairs


def _comparison_rows(
    case: _Case, contender: Contender, against: str, pairs: Pairs, n_fits: int
) -> list[Row]:
    aligned = [align(*pair) for pair in pairs]
    figures = [_figures(each) for each in aligned]
    for each, pair in zip(figures, pairs, strict=True):
        each["divergence-nats"] = mean_divergence(*pair)
    settings = {**contender.settings, "against": against, "pairs": len(pairs)}
    rows = [
        row_over_seeds(
            Row(
                task=case.task,
                model=contender.model,
                settings=settings,
                metric=metric,
                n_configurations=contender.n_configurations,
            ),
            values=[each[metric] for each in figures],
        )
        for metric in figures[0]
    ]
    # Blown up by single pairs, so that a mean says nothing.
    inverse = Row(
        task=case.task,
        model=contender.model,
        settings=settings,
        metric="alike-centers-inverse-median",
        value=float(np.median([_mean(each.center) for each in aligned])),
    )
    return [replace(row, n_seeds=n_fits) for row in [*rows, inverse]]


def _figures(found: Alignment) -> dict[str, float]:
    """Both ways, and where one has no place before the other, their mean."""
    figures = {
        "alike-context": _mean(found.context),
        "alike-context-forward": found.context.forward,
        "alike-context-backward": found.context.backward,
        "alike-context-cca": float(found.context_correlations.mean()),
        "alike-context-rotation": _mean(found.rotation_context),
        "alike-centers": _mean(found.center_effect),
        "alike-centers-forward": found.center_effect.forward,
        "alike-centers-backward": found.center_effect.backward,
        "alike-centers-cca": float(found.center_correlations.mean()),
        "alike-centers-rotation": _mean(found.rotation_center),
        "alike-centers-coordinates": _mean(found.center_transposed),
    }
    return figures if found.bias is None else {**figures, "alike-bias": _mean(found.bias)}


def _mean(both: BothWays) -> float:
    return (both.forward + both.backward) / 2


def _diversity_rows(case: _Case, contender: Contender, told: Sequence[ItemEmbeddings]) -> list[Row]:
    """Ranks and condition numbers of what assumptions 2 and 3 ask for, and which of them fail."""
    failed = [failed_diversity(each) for each in told]
    names = dict.fromkeys(text.split(":")[0] for each in failed for text in each)
    plain = Row(task=case.task, model=contender.model, settings=contender.settings, metric="")
    rows = [
        row_over_seeds(
            replace(
                plain,
                metric="count-assumptions-failed",
                settings={**contender.settings, "failed": "; ".join(names) or "none"},
            ),
            values=[float(len(each)) for each in failed],
        )
    ]
    matrices = {"items": item_diversity, "contexts": context_diversity, "shift": shift_diversity}
    for name, measure in matrices.items():
        each = [measure(one) for one in told]
        figures = {
            f"count-rank-{name}": [float(one.rank) for one in each],
            f"count-rank-needed-{name}": [float(one.needed) for one in each],
            f"condition-{name}": [one.condition for one in each],
        }
        rows += [
            row_over_seeds(replace(plain, metric=metric), values=values)
            for metric, values in figures.items()
            if np.isfinite(values).all()
        ]
    return rows


def _value_rows() -> list[Row]:
    """The counterexample: one law, assumptions that hold, and no linear map."""
    y = np.random.default_rng(NULL_SEED).normal(size=1_000)
    first, second = value_counterexample(y)
    one = replace(first, context=first.mean[:, None], vector=np.ones(1))
    other = replace(first, context=-2 * first.mean[:, None], vector=np.full(1, -0.5))
    rows = []
    for dims, pair in ((1, (one, other)), (2, (first, second))):
        check = check_values(*pair)
        figures = {
            "count-assumptions-failed": float(len(check.failed_assumptions)),
            "count-conclusions-failed": float(len(check.failed_conclusions)),
            "divergence-means": check.measured["means apart"],
            "alike-context-forward": check.measured["R2 of K, forward"],
            "alike-context-backward": check.measured["R2 of K, backward"],
        }
        rows += [
            Row(
                task=TASK + "values",
                model="counterexample",
                settings={"dims": dims},
                metric=metric,
                value=value,
            )
            for metric, value in figures.items()
        ]
    return rows
