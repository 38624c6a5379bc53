"""Whether fits of one model have the same embeddings: Theorem 1 of Exponential Family Attention.

Embeddings of fits that differ in their seed alone are compared up to one affine map. "against" says
with what: "seeds" (all pairs of fits), "truth" (of simulated data), and the nulls "shuffled-items"
(the other fit with its items' names shuffled) and "shuffled-contexts" (each context another's).
`sd` is over pairs, of which several share a fit. "alike-" figures are 1 where the theorem's
conclusion is exact; "divergence-nats" measures its premise, the same conditionals.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from exfam.efa.efa import EFA
from exfam_studies.common.fits import Contender, Fit, Job, fitter, gather, smaller, training_of
from exfam_studies.common.harness import Options
from exfam_studies.common.provenance import changed_parameters
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.common.splits import Splits
from exfam_studies.efa.attention_process import draw_attention_process
from exfam_studies.efa.diversity import (
    context_diversity,
    failed_diversity,
    item_diversity,
    shift_diversity,
)
from exfam_studies.efa.identifiability import (
    Alignment,
    ItemEmbeddings,
    align,
    item_embeddings,
    mean_divergence,
    shuffled_contexts,
    shuffled_names,
)
from exfam_studies.efa.identifiability_values import (
    NULL_SEED,
    PARAMETERS,
    fitted_with_nats,
    value_rows,
)
from exfam_studies.efa.instacart_splits import instacart_baskets
from exfam_studies.efa.movielens_items import EFA_SETTINGS, SPLIT_SEED
from exfam_studies.efa.movielens_splits import movielens_items

TASK = "identifiability-"
TASKS = tuple(TASK + name for name in ("simulated", "movielens", "instacart", "values"))
PLOTTED = {"alike-context": "groups", "alike-centers": "groups"}

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
N_CONFIGURATIONS = {"simulated": 12, "movielens": 14, "instacart": 1}
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


@dataclass(frozen=True, eq=False)
class Case:
    """Fits of one model to data of one size, and what is known of the truth at the test contexts.

    `size`: what rows say of it: groups, or share of the training groups
    """

    task: str
    splits: Splits
    parameters: Mapping[str, Any]
    size: Mapping[str, str | int | float]
    n_configurations: int
    truth: ItemEmbeddings | None = None
    bayes: Mapping[str, float] = field(default_factory=dict)


def run(options: Options) -> list[Row]:
    """Fit, compare and check what the theorem assumes, for the wanted tasks."""
    jobs: list[Job] = []
    for task, cases in _CASES.items():
        if options.wants(task):
            n_seeds = max(2, options.n_seeds(SEEDS[task.removeprefix(TASK)]))
            for case in cases(options):
                label = " ".join([task, *map(str, case.size.values())])
                jobs.append(Job(label, partial(_comparison_rows, case, options, n_seeds)))
    if options.wants(TASK + "values"):
        jobs.append(Job(TASK + "values", partial(value_rows, TASK + "values", options)))
    return gather(jobs)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of EFA that differ from its defaults."""
    if row.model != "efa":
        return {}
    task, settings = row.task.removeprefix(TASK), dict(row.settings)
    if task == "values":
        chosen = {**PARAMETERS, "embed_dim": settings["dims"]}
    elif task == "simulated":
        chosen = _simulated_parameters(str(settings["model"]), int(settings["groups"]))
    else:
        chosen = {"movielens": MOVIELENS, "instacart": INSTACART}[task][str(settings["model"])]
    return changed_parameters(EFA(**training_of(chosen, options)))


def _simulated_parameters(name: str, size: int) -> dict[str, Any]:
    return {**SIMULATED, **SIZES[size], **VARIANTS.get(name, {})}


def _simulated(options: Options) -> list[Case]:
    sizes = FAST_SIZES if options.fast else tuple(SIZES)
    other = sizes[-1] if options.fast else VARIANT_SIZE
    wanted = [("plain", size) for size in sizes] + [(name, other) for name in VARIANTS]
    return [
        *(_simulated_case(name, size, seed=PROCESS_SEED) for name, size in wanted),
        _simulated_case("fresh-truth", other, seed=FRESH_SEED),
    ]


def _simulated_case(name: str, size: int, *, seed: int) -> Case:
    """The truth of one seed, drawn from with seeds that depend on it."""
    process = draw_attention_process(N_ITEMS, dim=DIM, seed=seed)
    draw = partial(process.draw, length=LENGTH)
    test = draw(N_TEST, seed=seed + TEST_SEED)
    train = draw(size, seed=seed + TRAIN_SEED)
    group = np.repeat(np.arange(len(test)), test.lengths)
    return Case(
        task=TASK + "simulated",
        splits=Splits(train, draw(N_VALIDATION, seed=seed + VALIDATION_SEED), test),
        parameters=_simulated_parameters(name, size),
        size={"model": name, "groups": size},
        n_configurations=N_CONFIGURATIONS["simulated"],
        truth=ItemEmbeddings(process.contexts(test), process.center, process.bias, group),
        bayes={"nats": -float(process.log_prob(test).mean())},
    )


def _movielens(options: Options) -> list[Case]:
    splits = movielens_items("correct", seed=SPLIT_SEED)
    return _shares("movielens", splits, MOVIELENS, MOVIELENS_SHARES, options)


def _instacart(options: Options) -> list[Case]:
    return _shares("instacart", instacart_baskets("paper"), INSTACART, INSTACART_SHARES, options)


def _shares(
    task: str,
    whole: Splits,
    models: Mapping[str, Mapping[str, Any]],
    shares: Sequence[float],
    options: Options,
) -> list[Case]:
    """Cases of the first part of the training groups in random order, small ones in large ones."""
    splits = smaller(whole, options)
    order = np.random.default_rng(TRAIN_SEED).permutation(len(splits.train))
    cases = []
    for name, parameters in models.items():
        for share in shares[-FAST_SHARES:] if options.fast else shares:
            n = round(share * len(order))
            # Fewer groups are fewer steps a pass: between as many passes and as many steps.
            epochs = round(parameters["max_epochs"] / share**0.5)
            own = replace(splits, train=splits.train[order[:n]])
            settings = {**parameters, "max_epochs": epochs}
            size: dict[str, str | int | float] = {"model": name, "groups": n}
            cases.append(Case(TASK + task, own, settings, size, N_CONFIGURATIONS[task]))
    return cases


_CASES: dict[str, Callable[[Options], list[Case]]] = {
    TASK + "simulated": _simulated,
    TASK + "movielens": _movielens,
    TASK + "instacart": _instacart,
}


def _comparison_rows(case: Case, options: Options, n_seeds: int) -> list[Row]:
    """Fit `n_seeds` models, compare all pairs."""
    contender = Contender(
        model="efa",
        settings={**case.size, "dims": int(case.parameters.get("embed_dim", 32))},
        fit=fitter(EFA, training_of(case.parameters, options)),
        n_configurations=case.n_configurations,
    )
    fits, rows = fitted_with_nats(contender, case.splits, task=case.task, n_seeds=n_seeds)
    embeddings = [_embeddings(fit, case) for fit in fits]
    rows += [
        Row(task=case.task, model="bayes", settings=case.size, metric=metric, value=value)
        for metric, value in case.bayes.items()
    ]
    row = Row(task=case.task, model="efa", settings=contender.settings, metric="")
    rows += _diversity_rows(row, embeddings)
    others = {
        "seeds": embeddings,
        "shuffled-items": [_embeddings(fit, case, shuffled=True) for fit in fits],
        "shuffled-contexts": [shuffled_contexts(fit, seed=NULL_SEED) for fit in embeddings],
    }
    pairs = {
        against: [(embeddings[i], other[j]) for i, j in combinations(range(len(other)), 2)]
        for against, other in others.items()
    }
    if case.truth is not None:
        pairs["truth"] = [(case.truth, fit) for fit in embeddings]
    for against, some in pairs.items():
        settings = {**contender.settings, "against": against, "pairs": len(some)}
        own = _pair_rows(replace(row, settings=settings), some, case.n_configurations)
        rows += [replace(each, n_seeds=len(fits)) for each in own]
    return rows


def _embeddings(fit: Fit, case: Case, *, shuffled: bool = False) -> ItemEmbeddings:
    model = fit.estimator.members_[0]
    names = shuffled_names(model.item_part.n_items, seed=NULL_SEED) if shuffled else None
    return item_embeddings(model, case.splits.test, names=names)


def _pair_rows(
    row: Row, pairs: Sequence[tuple[ItemEmbeddings, ItemEmbeddings]], n_configurations: int
) -> list[Row]:
    aligned = [align(*pair) for pair in pairs]
    figures = [
        {**_figures(own), "divergence-nats": mean_divergence(*pair)}
        for own, pair in zip(aligned, pairs, strict=True)
    ]
    rows = [
        row_over_seeds(
            replace(row, metric=metric, n_configurations=n_configurations),
            values=[of_pair[metric] for of_pair in figures],
        )
        for metric in figures[0]
    ]
    # Blown up by single pairs, so that a mean says nothing.
    median = float(np.median([sum(own.center) / 2 for own in aligned]))
    return [*rows, replace(row, metric="alike-centers-inverse-median", value=median)]


def _figures(own: Alignment) -> dict[str, float]:
    """Both ways, and their mean where neither has precedence."""
    figures = {
        "alike-context": sum(own.context) / 2,
        "alike-context-forward": own.context.forward,
        "alike-context-backward": own.context.backward,
        "alike-context-cca": float(own.context_correlations.mean()),
        "alike-context-rotation": sum(own.rotation_context) / 2,
        "alike-centers": sum(own.center_effect) / 2,
        "alike-centers-forward": own.center_effect.forward,
        "alike-centers-backward": own.center_effect.backward,
        "alike-centers-cca": float(own.center_correlations.mean()),
        "alike-centers-rotation": sum(own.rotation_center) / 2,
        "alike-centers-coordinates": sum(own.center_transposed) / 2,
    }
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
        figures = {
            f"count-rank-{name}": [float(matrix.rank) for matrix in measured],
            f"count-rank-needed-{name}": [float(matrix.needed) for matrix in measured],
            f"condition-{name}": [matrix.condition for matrix in measured],
        }
        rows += [
            row_over_seeds(replace(row, metric=metric), values=values)
            for metric, values in figures.items()
            if np.isfinite(values).all()
        ]
    return rows
