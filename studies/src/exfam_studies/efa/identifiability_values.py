"""Theorem 1 for values, and why it holds for the scalar mean alone: its counterexample.

Assumption 1 writes the mean of a value as J(c) = K(c) . L, L one vector for all contexts: what K
does across L is free, whatever assumption 4 says. The paper's proof (appendix C) finds C from as
many contexts as K has dimensions, where K' = C K* holds by construction, and takes it to hold at
all others.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import nn

from exfam.checks import ExfamError
from exfam.efa.networks.efa_network import EFANetwork
from exfam.estimator.evaluate import value_parameters
from exfam.families import Scaled
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel
from exfam_studies.common.statements import Check, unmet
from exfam_studies.efa.diversity import Diversity, diversity_of
from exfam_studies.efa.identifiability import hidden_contexts


@dataclass(frozen=True, eq=False)
class ValueEmbeddings:
    """Means of values, J(c), and what is said to make them: J(c) = K(c) . L (Assumption 1).

    `context`: K, one row for each context; `vector`: L; `mean`: J
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

    >>> check = check_values(*value_counterexample(np.linspace(-1.0, 2.0, 7)))
    >>> check.applies, check.holds
    (True, False)
    """
    first, second = (
        ValueEmbeddings(np.column_stack([y, y**power]), np.array([1.0, 0.0]), y) for power in (2, 3)
    )
    return first, second


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
    same = f"same conditionals: means at most {tolerance:g} apart, got {apart:.3g}"
    linear = f"R2 of at least {1 - tolerance:g} both ways, got {forward:.4f} and {backward:.4f}"
    failed = [*unmet((apart <= tolerance, same))]
    for name, fit in (("the first fit", first), ("the second fit", second)):
        bent, own = _apart(fit.context @ fit.vector, fit.mean), value_diversity(fit)
        product = f"assumption 1: J = K . L must hold for {name}, got {bent:.3g} of it apart"
        rank = f"assumption 4: N of {name} must have rank {own.needed}, got {own.rank}"
        failed += unmet((bent <= tolerance, product), (own.suffices, rank))
    return Check(
        statement="Theorem 1, values",
        measured={"means apart": apart, "R2 of K, forward": forward, "R2 of K, backward": backward},
        expected={"means apart": 0.0, "R2 of K, forward": 1.0, "R2 of K, backward": 1.0},
        failed_assumptions=tuple(failed),
        failed_conclusions=unmet((min(forward, backward) >= 1 - tolerance, f"K' = C K*: {linear}")),
    )


def _apart(other: Float[np.ndarray, "contexts"], mean: Float[np.ndarray, "contexts"]) -> float:
    """Root mean square of the difference, relative to that of `mean`."""
    return float(np.linalg.norm(other - mean) / max(np.linalg.norm(mean), np.finfo(float).tiny))


def _linear_share(
    given: Float[np.ndarray, "contexts from"], wanted: Float[np.ndarray, "contexts to"]
) -> float:
    """1 - |wanted - given C'|^2 / |wanted|^2 for the best C: Definition 2 has no shift."""
    left = wanted - given @ np.linalg.lstsq(given, wanted, rcond=None)[0]
    return 1 - float((left**2).sum() / max((wanted**2).sum(), np.finfo(float).tiny))
