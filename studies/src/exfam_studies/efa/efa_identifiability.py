"""Whether fits of one model have the same embeddings: Theorem 1 of Exponential Family Attention.

Embeddings of fits that differ in their seed alone are compared up to one affine map. "against" says
with what: "seeds" (all pairs of fits), "truth" (of simulated data), and the nulls "shuffled-items"
(the other fit with its items' names shuffled) and "shuffled-contexts" (each context another's).
`sd` is over pairs, of which several share a fit. "alike-" figures are 1 where the theorem's
conclusion is exact; "divergence-nats" measures its premise, the same conditionals.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from exfam.efa.efa import EFA
from exfam.families import Gaussian
from exfam.simulators import simulate_ratings
from exfam_studies.common.fits import (
    Contender,
    Fit,
    Job,
    fit_seeds,
    fitter,
    gather,
    rows_of,
    smaller,
    training_of,
)
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.common.splits import Splits
from exfam_studies.efa.attention_process import draw_attention_process
from exfam_studies.efa.contenders import PAPER, nats
from exfam_studies.efa.diversity import (
    context_diversity,
    failed_diversity,
    item_diversity,
    shift_diversity,
)
from exfam_studies.efa.identifiability import (
    Alignment,
    ItemEmbeddings,
    affine_map,
    align,
    explained,
    item_embeddings,
    mean_divergence,
    shuffled_contexts,
    shuffled_names,
)
from exfam_studies.efa.identifiability_values import (
    ValueEmbeddings,
    check_values,
    value_counterexample,
    value_embeddings,
)
from exfam_studies.efa.instacart import instacart_baskets
from exfam_studies.efa.movielens_items import EFA_SETTINGS, SPLIT_SEED
from exfam_studies.efa.movielens_splits import movielens_items

TASK = "identifiability-"
# Fits of each task's models, and how many configurations were tried.
SEEDS = {"simulated": 5, "movielens": 5, "instacart": 3, "values": 5}
N_CONFIGURATIONS = {"simulated": 12, "movielens": 14, "instacart": 1, "values": 1}
TASKS = tuple(TASK + name for name in SEEDS)
PLOTTED = {"alike-context": "groups", "alike-centers": "groups"}
# Nulls are drawn with this seed.
NULL_SEED = 7

# The simulated truth: few enough dimensions for few items.
N_ITEMS, DIM, LENGTH = 20, 4, 10
PROCESS_SEED, TRAIN_SEED, VALIDATION_SEED, TEST_SEED = 0, 1, 98, 99
# A truth that was never used while choosing anything.
FRESH_SEED = 1_001
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

REAL: dict[str, dict[str, dict[str, Any]]] = {
    "movielens": {
        "plain": {
            **PLAIN, "embed_dim": 16, "conditional": "static", "dropout": 0.2,
            "weight_decay": 0.01, "learning_rate": 0.02, "batch_size": 16, "max_epochs": 60,
        },
        # As in "efa-movielens-items": a layer norm before the head.
        "layer-norm": {
            **EFA_SETTINGS["bidirectional", "all"], "support": "none", "conditional": "static",
            "patience": 1_000,
        },
    },
    "instacart": {
        "plain": {
            **PLAIN, "embed_dim": 16, "conditional": "static", "dropout": 0.0,
            "weight_decay": 0.01, "learning_rate": 0.02, "batch_size": 128, "max_epochs": 15,
        },
    },
}  # fmt: skip
SHARES = {"movielens": (1 / 8, 1 / 4, 1 / 2, 1.0), "instacart": (1 / 16, 1 / 4, 1.0)}
FAST_SHARES = 2

# Of values.
VALUE_SIZES, FAST_VALUE_SIZES = (4_000, 500, 1_000), (40, 20, 20)
VALUE_SEED, VALUE_DIMS, N_RATINGS = 1_004, (4, 16), 5
VALUES: dict[str, Any] = {
    "direction": "causal", "parts": "values", "family": Gaussian(scale=1.0), "head_hidden_dim": 0,
    "connection": "residual", "dropout": 0.0, "weight_decay": 0.01, "learning_rate": 5e-3,
    "max_epochs": 30,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Case:
    """Fits of one model to data of one size, and what is known of the truth at the test contexts.

    `size`: what rows say of it; `bayes`: nats of the truth
    """

    task: str
    splits: Splits
    parameters: Mapping[str, Any]
    size: Mapping[str, str | int]
    truth: ItemEmbeddings | None = None
    bayes: float | None = None

    def fitted(self, options: Options) -> tuple[list[Fit], list[Row], Row]:
        """Fits of all seeds, the rows of their nats, and a row to fill in."""
        settings = {**self.size, "dims": int(self.parameters.get("embed_dim", 32))}
        fit = fitter(EFA, training_of({**PAPER, **self.parameters}, options))
        tried, task = N_CONFIGURATIONS[self.task], TASK + self.task
        contender = Contender(model="efa", settings=settings, fit=fit, n_configurations=tried)
        fits = fit_seeds(contender, self.splits, seeds=max(2, options.n_seeds(SEEDS[self.task])))
        rows = rows_of(contender, fits, self.splits, task=task, measure=nats)
        row = Row(task=task, model="efa", settings=settings, metric="", n_seeds=len(fits))
        return fits, rows, replace(row, parameters=rows[0].parameters)


def run(options: Options) -> list[Row]:
    """Fit, compare and check what the theorem assumes, for the wanted tasks."""
    jobs: list[Job] = []
    for name in ("simulated", *REAL):
        if options.wants(TASK + name):
            cases = _simulated(options) if name == "simulated" else _shares(name, options)
            for case in cases:
                label = " ".join([TASK + name, *map(str, case.size.values())])
                jobs.append(Job(label, partial(_item_rows, case, options)))
    if options.wants(TASK + "values"):
        jobs.append(Job(TASK + "values", partial(_value_rows, options)))
    return gather(jobs)


def _simulated(options: Options) -> Iterator[Case]:
    sizes = FAST_SIZES if options.fast else tuple(SIZES)
    other = sizes[-1] if options.fast else VARIANT_SIZE
    yield from (_simulated_case("plain", size) for size in sizes)
    yield from (_simulated_case(name, other) for name in (*VARIANTS, "fresh-truth"))


def _simulated_case(name: str, size: int) -> Case:
    """The truth of one seed, drawn from with seeds that depend on it."""
    seed = FRESH_SEED if name == "fresh-truth" else PROCESS_SEED
    process = draw_attention_process(N_ITEMS, dim=DIM, seed=seed)
    draw = partial(process.draw, length=LENGTH)
    test = draw(N_TEST, seed=seed + TEST_SEED)
    train = draw(size, seed=seed + TRAIN_SEED)
    group = np.repeat(np.arange(len(test)), test.lengths)
    return Case(
        task="simulated",
        splits=Splits(train, draw(N_VALIDATION, seed=seed + VALIDATION_SEED), test),
        parameters={**SIMULATED, **SIZES[size], **VARIANTS.get(name, {})},
        size={"model": name, "groups": size},
        truth=ItemEmbeddings(process.contexts(test), process.center, process.bias, group),
        bayes=-float(process.log_prob(test).mean()),
    )


def _shares(task: str, options: Options) -> Iterator[Case]:
    """Cases of the first part of the training groups in random order, small ones in large ones."""
    is_movies = task == "movielens"
    whole = movielens_items("correct", seed=SPLIT_SEED) if is_movies else instacart_baskets("paper")
    splits = smaller(whole, options)
    order = np.random.default_rng(TRAIN_SEED).permutation(len(splits.train))
    for name, parameters in REAL[task].items():
        for share in SHARES[task][-FAST_SHARES:] if options.fast else SHARES[task]:
            n = round(share * len(order))
            # Fewer groups are fewer steps a pass: between as many passes and as many steps.
            epochs = round(parameters["max_epochs"] / share**0.5)
            yield Case(
                task=task,
                splits=replace(splits, train=splits.train[order[:n]]),
                parameters={**parameters, "max_epochs": epochs},
                size={"model": name, "groups": n},
            )


def _item_rows(case: Case, options: Options) -> list[Row]:
    """Fit models, compare all pairs."""
    fits, rows, row = case.fitted(options)
    if case.bayes is not None:
        rows.append(
            Row(task=row.task, model="bayes", settings=case.size, metric="nats", value=case.bayes)
        )
    models, test = [fit.estimator.members_[0] for fit in fits], case.splits.test
    names = shuffled_names(models[0].item_part.n_items, seed=NULL_SEED)
    embeddings = [item_embeddings(model, test) for model in models]
    rows += _diversity_rows(row, embeddings)
    others = {
        "seeds": embeddings,
        "shuffled-items": [item_embeddings(model, test, names=names) for model in models],
        "shuffled-contexts": [shuffled_contexts(fit, seed=NULL_SEED) for fit in embeddings],
    }
    pairs = {against: _pairs(embeddings, other) for against, other in others.items()}
    if case.truth is not None:
        pairs["truth"] = [(case.truth, fit) for fit in embeddings]
    row = replace(row, n_configurations=N_CONFIGURATIONS[case.task])
    for against, some in pairs.items():
        aligned = [align(*pair) for pair in some]
        figures = [
            {**_figures(own), "divergence-nats": mean_divergence(*pair)}
            for own, pair in zip(aligned, some, strict=True)
        ]
        rows += _against(row, against, figures)
        # Blown up by single pairs, so that a mean says nothing.
        median = float(np.median([sum(own.center) / 2 for own in aligned]))
        last = replace(rows[-1], metric="alike-centers-inverse-median", value=median)
        rows.append(replace(last, sd=None, n_configurations=None))
    return rows


def _pairs(first: Sequence, second: Sequence) -> list[tuple]:
    """Each fit with all later ones of another list."""
    return [(first[i], second[j]) for i, j in combinations(range(len(first)), 2)]


def _against(row: Row, against: str, figures: Sequence[Mapping[str, float]]) -> list[Row]:
    """One row for each figure of pairs."""
    settings, rows = {**row.settings, "against": against, "pairs": len(figures)}, []
    for metric in figures[0]:
        own = replace(row, settings=settings, metric=metric)
        own = row_over_seeds(own, values=[pair[metric] for pair in figures])
        rows.append(replace(own, n_seeds=row.n_seeds))
    return rows


def _figures(own: Alignment) -> dict[str, float]:
    """Both ways, and their mean where neither has precedence."""
    figures: dict[str, float] = {}
    for name, both, correlations, rotation in (
        ("context", own.context, own.context_correlations, own.rotation_context),
        ("centers", own.center_effect, own.center_correlations, own.rotation_center),
    ):
        figures |= {
            f"alike-{name}": sum(both) / 2,
            f"alike-{name}-forward": both.forward,
            f"alike-{name}-backward": both.backward,
            f"alike-{name}-cca": float(correlations.mean()),
            f"alike-{name}-rotation": sum(rotation) / 2,
        }
    figures["alike-centers-coordinates"] = sum(own.center_transposed) / 2
    return figures if own.bias is None else {**figures, "alike-bias": sum(own.bias) / 2}


def _diversity_rows(row: Row, embeddings: Sequence[ItemEmbeddings]) -> list[Row]:
    """Ranks and condition numbers of what assumptions 2 and 3 need, and which of them fail."""
    failed = [failed_diversity(fit) for fit in embeddings]
    names = dict.fromkeys(text.split(":")[0] for texts in failed for text in texts)
    settings = {**row.settings, "failed": "; ".join(names) or "none"}
    counted = replace(row, metric="count-assumptions-failed", settings=settings)
    rows = [row_over_seeds(counted, values=[float(len(texts)) for texts in failed])]
    matrices = {"items": item_diversity, "contexts": context_diversity, "shift": shift_diversity}
    for name, measure in matrices.items():
        measured = [measure(fit) for fit in embeddings]
        for metric, field in (
            ("count-rank", "rank"), ("count-rank-needed", "needed"), ("condition", "condition")
        ):  # fmt: skip
            values = [float(getattr(matrix, field)) for matrix in measured]
            if np.isfinite(values).all():
                named = replace(row, metric=f"{metric}-{name}")
                rows.append(row_over_seeds(named, values=values))
    return rows


def _value_rows(options: Options) -> list[Row]:
    """The counterexample, and pairs of fits."""
    rows = _counterexample_rows()
    sizes = FAST_VALUE_SIZES if options.fast else VALUE_SIZES
    groups = simulate_ratings(sum(sizes), seed=VALUE_SEED)
    ends = np.cumsum(sizes)[:2]
    splits = Splits(groups[: ends[0]], groups[ends[0] : ends[1]], groups[ends[1] :])
    for dims in VALUE_DIMS:
        case = Case("values", splits, {**VALUES, "embed_dim": dims}, {})
        fits, of_nats, row = case.fitted(options)
        rows += of_nats
        first = [value_embeddings(fit.estimator.members_[0], splits.test) for fit in fits]
        others = {"seeds": first, "shuffled-contexts": [_shuffled(fit) for fit in first]}
        for against, second in others.items():
            figures = [
                {
                    "alike-means": _share(one.mean[:, None], other.mean[:, None]),
                    "alike-context": _share(one.context, other.context),
                }
                for one, other in _pairs(first, second)
            ]
            rows += _against(row, against, figures)
    return rows


def _counterexample_rows() -> list[Row]:
    """One distribution, assumptions that hold, and no linear map; in one dimension there is one."""
    y = np.random.default_rng(NULL_SEED).normal(size=1_000)
    line = [ValueEmbeddings(c * y[:, None], np.full(1, 1 / c), y) for c in (1.0, -2.0)]
    rows = []
    for dims, pair in ((1, line), (2, value_counterexample(y))):
        check = check_values(*pair)
        figures = {
            "count-assumptions-failed": float(len(check.failed_assumptions)),
            "count-conclusions-failed": float(len(check.failed_conclusions)),
            "divergence-means": check.measured["means apart"],
            "alike-context-forward": check.measured["R2 of K, forward"],
            "alike-context-backward": check.measured["R2 of K, backward"],
        }
        row = Row(task=TASK + "values", model="counterexample", settings={"dims": dims}, metric="")
        rows += [replace(row, metric=metric, value=value) for metric, value in figures.items()]
    return rows


def _shuffled(fit: ValueEmbeddings) -> ValueEmbeddings:
    """Each context another's."""
    order = np.random.default_rng(NULL_SEED).permutation(len(fit.mean))
    return replace(fit, context=fit.context[order], mean=fit.mean[order])


def _share(first: np.ndarray, second: np.ndarray) -> float:
    """R^2 of affine maps from the first half of the users to the second, the mean of both ways."""
    half = N_RATINGS * (len(first) // N_RATINGS // 2)
    forward, backward = (
        explained(wanted[half:], affine_map(given[:half], wanted[:half])(given[half:]))
        for given, wanted in ((first, second), (second, first))
    )
    return (forward + backward) / 2
