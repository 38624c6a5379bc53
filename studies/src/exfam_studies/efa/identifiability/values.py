"""Theorem 1 for values, and why it holds for the scalar mean alone.

Assumption 1 writes the mean of a value as J(c) = K(c) . L, L one vector for all contexts. Only the
projection of K on L enters the law: what K does across L is free, whatever assumption 4 says. The
paper's proof (appendix C) finds C from as many contexts as K has dimensions, where K' = C K* holds
by construction, and takes it to hold at all others.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import nn

from exfam.checks import DataError, ExfamError, check_positive
from exfam.efa.networks.efa_network import EFANetwork
from exfam.estimator.evaluate import value_parameters
from exfam.families import Scaled
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel
from exfam_studies.common.statements import Check, unmet
from exfam_studies.efa.identifiability.diversity import Diversity, diversity_of
from exfam_studies.efa.identifiability.embeddings import hidden_contexts


@dataclass(frozen=True, eq=False)
class ValueEmbeddings:
    """Means of values, J(c), and what is said to make them: J(c) = K(c) . L.

    `context`: K, a row a context; `vector`: L; `mean`: J
    Raises DataError for arrays that do not go together.
    Source: "Exponential Family Attention", Assumption 1.

    >>> ValueEmbeddings(np.eye(2), np.ones(2), np.ones(2)).context.shape
    (2, 2)
    """

    context: Float[np.ndarray, "contexts dim"]
    vector: Float[np.ndarray, "other_dim"]
    mean: Float[np.ndarray, "means"]

    def __post_init__(self) -> None:
        shape = (len(self.mean), len(self.vector))
        if self.context.shape != shape:
            raise DataError(
                "`context` must have a row a mean and a column an entry of `vector`, so shape "
                f"{shape}, got {self.context.shape}."
            )


def value_embeddings(model: TwoPartModel, groups: Groups) -> ValueEmbeddings:
    """K, L and J of every target of `groups`, observed or not, of a fit whose head is linear.

    J is the mean of the one Gaussian value; K the hidden state that the head multiplies with L, and
    one entry more, by which L is 1: the head's constant and the intercept of the context's item.
    Rows follow as elements do in the columns.

    `model` is a member of a fitted estimator with `head_hidden_dim=0`: `estimator.members_[0]`.
    Raises ExfamError for any other model: assumption 1 is not made by its head.

    >>> from exfam.efa.efa import EFA
    >>> groups = Groups(start=[0, 3], stop=[3, 5], values={"y": np.arange(5.0)})
    >>> model = EFA(embed_dim=2, head_hidden_dim=0, max_epochs=1, progress=False).fit(groups)
    >>> fit = value_embeddings(model.members_[0], groups)
    >>> fit.context.shape, bool(np.allclose(fit.context @ fit.vector, fit.mean))
    ((5, 3), True)
    """
    part, vector = _linear_part(model)
    context, element = hidden_contexts(model, part, groups)
    ((column, family),) = model.families.items()
    eta = value_parameters([model], groups)[column][0, element].double()
    mean = family.mean(eta).numpy()
    # The head's weights are of standardized values.
    vector = vector * (family.scale if isinstance(family, Scaled) else 1.0)
    rest = mean - context @ vector
    return ValueEmbeddings(np.column_stack([context, rest]), np.append(vector, 1.0), mean)


def _linear_part(model: TwoPartModel) -> tuple[EFANetwork, Float[np.ndarray, "dim"]]:
    """The value part and L; a group's offset would enter the mean beside the attention."""
    part = model.value_part
    head: Any = getattr(part, "head", None)
    families = [family.name for family in model.families.values()]
    is_linear = isinstance(getattr(head, "network", None), nn.Linear) and head.offset is None
    if not isinstance(part, EFANetwork) or families != ["gaussian"] or not is_linear:
        raise ExfamError(
            "`model` must have attention, one Gaussian value and a linear head for J = K . L, got "
            f"values of {families or 'no family'}. Fit an EFA with head_hidden_dim=0."
        )
    return part, head.network.weight.detach()[0].double().cpu().numpy()


def value_diversity(embeddings: ValueEmbeddings) -> Diversity:
    """Assumption 4: of N, whose columns are K at as many contexts as K has dimensions.

    Source: "Exponential Family Attention", Assumption 4 (Diversity III).

    >>> value_diversity(ValueEmbeddings(np.eye(3), np.ones(3), np.ones(3))).suffices
    True
    """
    return diversity_of(embeddings.context.T)


def value_counterexample(
    y: Float[np.ndarray, "contexts"],
) -> tuple[ValueEmbeddings, ValueEmbeddings]:
    """Two embeddings of one law that no linear map takes to each other.

    K*(y) = (y, y^2) and K'(y) = (y, y^3), both with L = (1, 0): the mean of a value is y for both,
    so all that assumptions 1 and 4 ask for is so, and y^3 is no linear function of y and y^2. So
    the second condition of Definition 3, and with it Theorem 1, fails for K of 2 dimensions.

    >>> first, second = value_counterexample(np.linspace(-1.0, 2.0, 7))
    >>> check = check_values(first, second)
    >>> check.applies, check.holds, check.failed_conclusions[0][:14]
    (True, False, "K' = C K*: R2 ")
    """
    vector = np.array([1.0, 0.0])
    first, second = np.column_stack([y, y**2]), np.column_stack([y, y**3])
    return (
        ValueEmbeddings(first, vector, first @ vector),
        ValueEmbeddings(second, vector, second @ vector),
    )


def check_values(
    first: ValueEmbeddings, second: ValueEmbeddings, *, tolerance: float = 1e-3
) -> Check:
    """Theorem 1, second condition: same means imply K' = C K* with one invertible C.

    `tolerance`: share of the square that may be left unexplained, and of the means' spread that
        they may differ by (default 1e-3)

    Assumes the same means (values are normal with a known variance), J = K . L (Assumption 1), and
    contexts at which K is invertible (Assumption 4). Concludes that K' is linear in K* and K* in K'
    (Definition 2; that L' = D L* for some invertible D is true of any two vectors that are not 0).
    For K of one dimension this is so: K' = (L* / L') K*. For more it is not: the check then applies
    and does not hold, as `value_counterexample` shows. What is determined is the scalar mean J.
    Raises ExfamError unless `tolerance` is above 0, DataError unless contexts are equally many.
    Source: "Exponential Family Attention", Definition 2, Assumptions 1 and 4, Theorem 1.

    >>> y = np.linspace(1.0, 2.0, 7)
    >>> first = ValueEmbeddings(y[:, None], np.array([2.0]), 2 * y)
    >>> second = ValueEmbeddings(-4 * y[:, None], np.array([-0.5]), 2 * y)
    >>> check = check_values(first, second)
    >>> check.applies, check.holds
    (True, True)
    >>> bent = ValueEmbeddings(y[:, None], np.array([2.0]), y**2)
    >>> check_values(bent, bent).failed_assumptions[0][:13]
    'assumption 1:'
    """
    check_positive("tolerance", tolerance)
    if len(first.mean) != len(second.mean):
        raise DataError(
            f"`second` must have the {len(first.mean)} contexts of `first`, got "
            f"{len(second.mean)}. Take both at the same contexts."
        )
    apart = _apart(second.mean, first.mean)
    forward = _linear_share(first.context, second.context)
    backward = _linear_share(second.context, first.context)
    same = (
        apart <= tolerance,
        f"same conditionals: means at most {tolerance:g} apart, got {apart:.3g}",
    )
    return Check(
        statement="Theorem 1, values",
        measured={"means apart": apart, "R2 of K, forward": forward, "R2 of K, backward": backward},
        expected={"means apart": 0.0, "R2 of K, forward": 1.0, "R2 of K, backward": 1.0},
        failed_assumptions=unmet(same)
        + _failed_assumptions(first, "the first fit", tolerance)
        + _failed_assumptions(second, "the second fit", tolerance),
        failed_conclusions=unmet(
            (
                min(forward, backward) >= 1 - tolerance,
                f"K' = C K*: R2 of at least {1 - tolerance:g} both ways, "
                f"got {forward:.4f} and {backward:.4f}",
            )
        ),
    )


def _failed_assumptions(fit: ValueEmbeddings, name: str, tolerance: float) -> tuple[str, ...]:
    bent, matrix = _apart(fit.context @ fit.vector, fit.mean), value_diversity(fit)
    return unmet(
        (
            bent <= tolerance,
            f"assumption 1: J = K . L must hold for {name}, got {bent:.3g} of it apart",
        ),
        (
            matrix.suffices,
            f"assumption 4: N of {name} must have rank {matrix.needed}, got {matrix.rank}",
        ),
    )


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
