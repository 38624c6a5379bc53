"""Whether fits of one model have the same embeddings: Theorem 1 of Exponential Family Attention.

Context embeddings H of test contexts and center embeddings delta of fits that differ in their seed
alone are compared up to one affine map, found from one half of the contexts and judged on the other
and on the items. "against" says with what: "seeds" (all pairs of fits), "truth" (of simulated data,
forward from it), "shuffled-items" (the other fit with its items' names shuffled, in contexts as at
the head) and "shuffled-contexts" (each context another's): nulls. `sd` is over pairs, of which
several share a fit. "alike-" figures are 1 where the theorem's conclusion is exact; its premise,
the same conditionals, is measured by "divergence-nats" (0 where it is exact).

The task "identifiability-values" is the other half of the theorem, which fails where embeddings
have two dimensions or more: see `exfam_studies.efa.identifiability.values`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from exfam.efa.efa import EFA
from exfam.groups import Groups
from exfam_studies.common.fits import Job, gather, smaller, training_of
from exfam_studies.common.harness import Options
from exfam_studies.common.pictures import agreement_curves
from exfam_studies.common.provenance import changed_parameters
from exfam_studies.common.rows import Row
from exfam_studies.common.splits import Splits
from exfam_studies.efa.attention_process import AttentionProcess, draw_attention_process
from exfam_studies.efa.identifiability import ItemEmbeddings
from exfam_studies.efa.identifiability_rows import Case, comparison_rows
from exfam_studies.efa.identifiability_values import PARAMETERS, value_rows
from exfam_studies.efa.instacart_splits import instacart_baskets
from exfam_studies.efa.movielens_items import EFA_SETTINGS, SPLIT_SEED
from exfam_studies.efa.movielens_splits import movielens_items

TASK = "identifiability-"
TASKS = tuple(TASK + name for name in ("simulated", "movielens", "instacart", "values"))

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


def run(options: Options) -> list[Row]:
    """Fit, compare and check what the theorem assumes, for the wanted tasks."""
    jobs: list[Job] = []
    for task, cases in _CASES.items():
        if options.wants(task):
            n_seeds = max(2, options.n_seeds(SEEDS[task.removeprefix(TASK)]))
            for case in cases(options):
                label = " ".join([task, *map(str, case.size.values())])
                jobs.append(Job(label, partial(comparison_rows, case, options, n_seeds)))
    if options.wants(TASK + "values"):
        jobs.append(Job(TASK + "values", partial(value_rows, TASK + "values", options)))
    return gather(jobs)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of EFA that differ from its defaults."""
    if row.model != "efa":
        return {}
    chosen: Mapping[str, Any]
    if row.task == TASK + "values":
        chosen = {**PARAMETERS, "embed_dim": row.settings["dims"]}
    else:
        chosen = _chosen(row.task.removeprefix(TASK), dict(row.settings))
    return changed_parameters(EFA(**training_of(chosen, options)))


def _chosen(task: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(settings["model"])
    if task == "simulated":
        return {**SIMULATED, **SIZES[int(settings["groups"])], **VARIANTS.get(name, {})}
    return {"movielens": MOVIELENS, "instacart": INSTACART}[task][name]


def plot(rows: list[Row], folder: Path) -> None:
    """How alike fits are by the size of their data, beside the nulls; one picture a task."""
    for task in TASKS:
        plain = [row for row in rows if row.task == task and row.settings.get("model") == "plain"]
        curves = {
            f"{name}, {against.replace('-', ' ')}": own
            for against in ("truth", "seeds", "shuffled-items")
            for metric, name in PLOTTED.items()
            if (own := _curve(plain, against, metric))
        }
        if curves:
            sizes = [float(row.settings["groups"]) for row in next(iter(curves.values()))]
            figure = agreement_curves(
                np.array(sizes),
                {
                    name: np.array([[row.value, row.sd or 0.0] for row in own], dtype=float)
                    for name, own in curves.items()
                },
                size_name="training groups",
            )
            figure.savefig(folder / f"efa-{task}.png", format="png", dpi=120, facecolor="white")


PLOTTED = {"alike-context": "contexts", "alike-centers": "centers"}


def _curve(rows: Sequence[Row], against: str, metric: str) -> list[Row]:
    return [row for row in rows if (row.settings.get("against"), row.metric) == (against, metric)]


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
    train, validation = (
        draw(size, seed=seed + TRAIN_SEED),
        draw(N_VALIDATION, seed=seed + VALIDATION_SEED),
    )
    return Case(
        task=TASK + "simulated",
        splits=Splits(train, validation, test),
        parameters={**SIMULATED, **SIZES[size], **VARIANTS.get(name, {})},
        size={"model": name, "groups": size},
        n_configurations=N_CONFIGURATIONS["simulated"],
        truth=_truth(process, test),
        bayes={"nats": -float(process.log_prob(test).mean())},
    )


def _truth(process: AttentionProcess, groups: Groups) -> ItemEmbeddings:
    group = np.repeat(np.arange(len(groups)), groups.stop - groups.start)
    return ItemEmbeddings(process.contexts(groups), process.center, process.bias, group)


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
            cases.append(
                Case(
                    task=TASK + task,
                    splits=replace(splits, train=splits.train[order[:n]]),
                    parameters={**parameters, "max_epochs": epochs},
                    size={"model": name, "groups": n},
                    n_configurations=N_CONFIGURATIONS[task],
                )
            )
    return cases


_CASES: dict[str, Callable[[Options], list[Case]]] = {
    TASK + "simulated": _simulated,
    TASK + "movielens": _movielens,
    TASK + "instacart": _instacart,
}
