"""Theorem 1 for values, and why it holds for the scalar mean alone: its counterexample, and fits.

Assumption 1 writes the mean of a value as J(c) = K(c) . L, L one vector for all contexts: what K
does across L is free, whatever assumption 4 says. The paper's proof (appendix C) finds C from as
many contexts as K has dimensions, where K' = C K* holds by construction, and takes it to hold at
all others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import nn

from exfam.checks import ExfamError
from exfam.efa.efa import EFA
from exfam.efa.networks.efa_network import EFANetwork
from exfam.estimator.evaluate import value_parameters
from exfam.families import Gaussian, Scaled
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel
from exfam.simulators import simulate_ratings
from exfam_studies.common.fits import Contender, Fit, figure_rows, fit_seeds, fitter, training_of
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.common.splits import Splits
from exfam_studies.common.statements import Check, unmet
from exfam_studies.efa.diversity import Diversity, diversity_of
from exfam_studies.efa.identifiability import affine_map, explained, hidden_contexts

# Nulls are drawn with this seed.
NULL_SEED = 7
SEEDS = 5
SIZES, FAST_SIZES = (4_000, 500, 1_000), (40, 20, 20)
DATA_SEED = 1_004
DIMS = (4, 16)
N_RATINGS = 5
PARAMETERS: dict[str, Any] = {
    "direction": "causal", "parts": "values", "family": Gaussian(scale=1.0), "head_hidden_dim": 0,
    "connection": "residual", "dropout": 0.0, "weight_decay": 0.01, "learning_rate": 5e-3,
    "max_epochs": 30,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class ValueEmbeddings:
    """Means of values, J(c), and what is said to make them: J(c) = K(c) . L (Assumption 1).

    `context`: K, a row a context; `vector`: L; `mean`: J
    """

    context: Float[np.ndarray, "contexts dim"]
    vector: Float[np.ndarray, "dim"]
    mean: Float[np.ndarray, "contexts"]


def value_embeddings(model: TwoPartModel, groups: Groups) -> ValueEmbeddings:
    """K, L and J of every target of `groups`, observed or not, of a fit whose head is linear.

    J is the mean of the one Gaussian value; K the hidden state that the head multiplies with L, and
    one entry more, by which L is 1: the head's constant and the intercept of the context's item.
    Rows follow as elements do in the columns. `model` is a member of a fitted estimator with
    `head_hidden_dim=0`. Raises ExfamError for any other: assumption 1 is not made by its head.
    """
    part, head = model.value_part, getattr(model.value_part, "head", None)
    families = [family.name for family in model.families.values()]
    network: Any = getattr(head, "network", None)
    # A group's offset would enter the mean beside the attention.
    is_linear = isinstance(network, nn.Linear) and getattr(head, "offset", None) is None
    if not isinstance(part, EFANetwork) or families != ["gaussian"] or not is_linear:
        raise ExfamError(
            "`model` must have attention, one Gaussian value and a linear head for J = K . L, got "
            f"values of {families or 'no family'}. Fit an EFA with head_hidden_dim=0."
        )
    context, element = hidden_contexts(model, part, groups)
    ((column, family),) = model.families.items()
    eta = value_parameters([model], groups)[column][0, element].double()
    mean = family.mean(eta).numpy()
    # The head's weights are of standardized values.
    vector = network.weight.detach()[0].double().cpu().numpy()
    vector = vector * (family.scale if isinstance(family, Scaled) else 1.0)
    rest = mean - context @ vector
    return ValueEmbeddings(np.column_stack([context, rest]), np.append(vector, 1.0), mean)


def value_diversity(embeddings: ValueEmbeddings) -> Diversity:
    """Assumption 4 (Diversity III): of N, whose columns are K at as many contexts as dimensions."""
    return diversity_of(embeddings.context.T)


def value_counterexample(
    y: Float[np.ndarray, "contexts"],
) -> tuple[ValueEmbeddings, ValueEmbeddings]:
    """Two embeddings of one distribution that no linear map takes to each other.

    K*(y) = (y, y^2) and K'(y) = (y, y^3), both with L = (1, 0): the mean of a value is y for both,
    so all that assumptions 1 and 4 ask for is so, and y^3 is no linear function of y and y^2. So
    the second condition of Definition 3, and with it Theorem 1, fails for K of 2 dimensions.

    >>> first, second = value_counterexample(np.linspace(-1.0, 2.0, 7))
    >>> check = check_values(first, second)
    >>> check.applies, check.holds
    (True, False)
    """
    vector = np.array([1.0, 0.0])
    first, second = np.column_stack([y, y**2]), np.column_stack([y, y**3])
    return ValueEmbeddings(first, vector, y), ValueEmbeddings(second, vector, y)


def check_values(
    first: ValueEmbeddings, second: ValueEmbeddings, *, tolerance: float = 1e-3
) -> Check:
    """Theorem 1, second condition: same means imply K' = C K* with one invertible C.

    `tolerance`: share of the square that may be left unexplained, and of the means' spread that
        they may differ by

    Assumes the same means (values are normal with a known variance), J = K . L (Assumption 1), and
    contexts at which K is invertible (Assumption 4). Concludes that K' is linear in K* and K* in K'
    (Definition 2; that L' = D L* for some invertible D is true of any two vectors that are not 0).
    For K of one dimension this is so: K' = (L* / L') K*. For more it is not: the check then applies
    and does not hold, as `value_counterexample` shows. What is determined is the scalar mean J.
    """
    apart = _apart(second.mean, first.mean)
    forward = _linear_share(first.context, second.context)
    backward = _linear_share(second.context, first.context)
    shares = f"got {forward:.4f} and {backward:.4f}"
    return Check(
        statement="Theorem 1, values",
        measured={"means apart": apart, "R2 of K, forward": forward, "R2 of K, backward": backward},
        expected={"means apart": 0.0, "R2 of K, forward": 1.0, "R2 of K, backward": 1.0},
        failed_assumptions=unmet(
            (
                apart <= tolerance,
                f"same conditionals: means at most {tolerance:g} apart, got {apart:.3g}",
            )
        )
        + _failed_assumptions(first, "the first fit", tolerance)
        + _failed_assumptions(second, "the second fit", tolerance),
        failed_conclusions=unmet(
            (
                min(forward, backward) >= 1 - tolerance,
                f"K' = C K*: R2 of at least {1 - tolerance:g} both ways, {shares}",
            )
        ),
    )


def _failed_assumptions(fit: ValueEmbeddings, name: str, tolerance: float) -> tuple[str, ...]:
    bent, own = _apart(fit.context @ fit.vector, fit.mean), value_diversity(fit)
    rank = f"assumption 4: N of {name} must have rank {own.needed}, got {own.rank}"
    product = f"assumption 1: J = K . L must hold for {name}, got {bent:.3g} of it apart"
    return unmet((bent <= tolerance, product), (own.suffices, rank))


def _apart(other: Float[np.ndarray, "contexts"], mean: Float[np.ndarray, "contexts"]) -> float:
    """Root mean square of the difference, relative to that of `mean`."""
    norm = np.linalg.norm
    return float(norm(other - mean) / max(norm(mean), np.finfo(float).tiny))


def _linear_share(
    given: Float[np.ndarray, "contexts from"], wanted: Float[np.ndarray, "contexts to"]
) -> float:
    """1 - |wanted - given C'|^2 / |wanted|^2 for the best C: Definition 2 has no shift."""
    left = wanted - given @ np.linalg.lstsq(given, wanted, rcond=None)[0]
    return 1 - float((left**2).sum() / max((wanted**2).sum(), np.finfo(float).tiny))


def fitted_with_nats(
    contender: Contender, splits: Splits, *, task: str, n_seeds: int
) -> tuple[list[Fit], list[Row]]:
    """Fits of all seeds, and the rows of their nats."""
    fits = fit_seeds(contender, splits, seeds=n_seeds)
    tests, validations = (
        [{"nats": -fit.estimator.score(groups)} for fit in fits]
        for groups in (splits.test, splits.validation)
    )
    return fits, figure_rows(contender, fits, task=task, tests=tests, validations=validations)


def value_rows(task: str, options: Options) -> list[Row]:
    """The counterexample, and pairs of fits."""
    rows = _counterexample_rows(task)
    for dims in DIMS:
        rows += _fitted_rows(task, dims, options)
    return rows


def _counterexample_rows(task: str) -> list[Row]:
    """One distribution, assumptions that hold, and no linear map; in one dimension there is one."""
    y = np.random.default_rng(NULL_SEED).normal(size=1_000)
    first, second = value_counterexample(y)
    one = replace(first, context=y[:, None], vector=np.ones(1))
    other = replace(first, context=-2 * y[:, None], vector=np.full(1, -0.5))
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
        row = Row(task=task, model="counterexample", settings={"dims": dims}, metric="")
        rows += [replace(row, metric=metric, value=value) for metric, value in figures.items()]
    return rows


def _fitted_rows(task: str, dims: int, options: Options) -> list[Row]:
    sizes = FAST_SIZES if options.fast else SIZES
    groups = simulate_ratings(sum(sizes), seed=DATA_SEED)
    ends = np.cumsum(sizes)[:2]
    splits = Splits(groups[: ends[0]], groups[ends[0] : ends[1]], groups[ends[1] :])
    contender = Contender(
        model="efa",
        settings={"dims": dims},
        fit=fitter(EFA, training_of({**PARAMETERS, "embed_dim": dims}, options)),
        n_configurations=1,
    )
    n_seeds = max(2, options.n_seeds(SEEDS))
    fits, rows = fitted_with_nats(contender, splits, task=task, n_seeds=n_seeds)
    first = [value_embeddings(fit.estimator.members_[0], splits.test) for fit in fits]
    others = {"seeds": first, "shuffled-contexts": [_shuffled(fit) for fit in first]}
    for against, second in others.items():
        pairs = [(first[i], second[j]) for i, j in combinations(range(len(fits)), 2)]
        settings: dict[str, str | int] = {"dims": dims, "against": against, "pairs": len(pairs)}
        row = Row(task=task, model="efa", settings=settings, metric="")
        rows += [replace(own, n_seeds=len(fits)) for own in _pair_rows(row, pairs)]
    return rows


def _shuffled(fit: ValueEmbeddings) -> ValueEmbeddings:
    """Each context another's."""
    order = np.random.default_rng(NULL_SEED).permutation(len(fit.mean))
    return replace(fit, context=fit.context[order], mean=fit.mean[order])


def _pair_rows(row: Row, pairs: Sequence[tuple[ValueEmbeddings, ValueEmbeddings]]) -> list[Row]:
    means = [_share(first.mean[:, None], second.mean[:, None]) for first, second in pairs]
    contexts = [_share(first.context, second.context) for first, second in pairs]
    return [
        row_over_seeds(replace(row, metric="alike-means"), values=means),
        row_over_seeds(replace(row, metric="alike-context"), values=contexts),
    ]


def _share(first: np.ndarray, second: np.ndarray) -> float:
    """R^2 of affine maps from the first half of the users to the second, the mean of both ways."""
    half = N_RATINGS * (len(first) // N_RATINGS // 2)
    forward, backward = (
        explained(wanted[half:], affine_map(given[:half], wanted[:half])(given[half:]))
        for given, wanted in ((first, second), (second, first))
    )
    return (forward + backward) / 2
