"""Which conditional terms are summed, and how they add up to one number of nats.

A family says what one observation's probability is; a likelihood says which observations are
predicted from which context, and what their sum may be called. Any pair composes.
"""

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from exfam.checks import ExfamError, check_choice
from exfam.groups import Batch


@dataclass(frozen=True, eq=False)
class LogProb:
    """Exact log-probabilities in nats of each element's item and values; 0 where not a target."""

    item: Float[Tensor, "batch length"] | None = None
    value: Mapping[str, Float[Tensor, "batch length"]] = field(default_factory=dict)

    def total(self) -> Float[Tensor, "batch length"]:
        """Item and value columns added.

        >>> LogProb(item=torch.tensor([[-1.0]]), value={"value": torch.tensor([[-2.0]])}).total()
        tensor([[-3.]])
        """
        parts = [] if self.item is None else [self.item]
        return torch.stack([*parts, *self.value.values()]).sum(0)


@runtime_checkable
class ModelWithLogProb(Protocol):
    """What a likelihood asks of a model."""

    direction: str

    def log_prob(self, batch: Batch) -> LogProb:
        """Log-probabilities of the batch's targets."""


def counted(log_prob: LogProb, batch: Batch) -> Bool[Tensor, "batch length"]:
    """Elements that have a term at all; each counts once, however many terms it has.

    A target counts unless it has nothing to predict: an unknown item (code -1) and no observed
    value that the model has a part for.
    """
    has_term = torch.zeros_like(batch.target)
    if log_prob.item is not None and batch.item is not None:
        has_term = has_term | (batch.item >= 0)
    if log_prob.value:
        has_term = has_term | batch.observed
    return batch.target & has_term


def _weights(batch: Batch, like: Tensor) -> Float[Tensor, "batch length"]:
    weight = torch.ones_like(like) if batch.weight is None else batch.weight.to(like.dtype)
    # Padding may carry any weight; NaN there must not survive a product with 0.
    return torch.where(batch.target, weight, 0.0)


class Likelihood(ABC):
    """A sum of conditionals of one direction. Called with a model and a batch it is the loss.

    `label` is what the sum is called wherever it is printed.
    """

    name: ClassVar[str]
    direction: ClassVar[str]
    label: ClassVar[str]

    def sums(self, log_prob: LogProb, batch: Batch) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Weighted log-likelihood in nats and the sum of the weights of the counted elements.

        Their quotient is the score: higher is better.
        """
        total = log_prob.total()
        weight = torch.where(counted(log_prob, batch), _weights(batch, total), 0.0)
        return (total * weight).sum(), weight.sum()

    def __call__(
        self, model: ModelWithLogProb, batch: Batch
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Minus the log-likelihood in nats (the loss to minimize) and the sum of weights.

        Raises ExfamError if the model's conditionals have the other direction.
        """
        if model.direction != self.direction:
            raise ExfamError(
                f"`model` must be {self.direction} for likelihood {self.name!r}, got "
                f"direction={model.direction!r}. Use likelihood_for(model.direction)."
            )
        nats, weight = self.sums(model.log_prob(batch), batch)
        return -nats, weight


class LeaveOneOut(Likelihood):
    """Each element given all others of its group. Not the log of a joint probability.

    >>> LeaveOneOut().label
    'pseudo-log-likelihood'
    """

    name = "leave_one_out"
    direction = "bidirectional"
    label = "pseudo-log-likelihood"


class Causal(Likelihood):
    """Each element given the earlier ones: the chain rule, so an exact log-likelihood.

    Source: "Exponential Family Attention", eq. 2.

    >>> Causal().label
    'log-likelihood'
    """

    name = "causal"
    direction = "causal"
    label = "log-likelihood"


LIKELIHOODS: dict[str, type[Likelihood]] = {"leave_one_out": LeaveOneOut, "causal": Causal}


def likelihood_for(direction: str) -> Likelihood:
    """The likelihood that sums all conditionals of a direction.

    >>> likelihood_for("bidirectional").name
    'leave_one_out'
    """
    by_direction = {kind.direction: kind for kind in LIKELIHOODS.values()}
    check_choice("direction", direction, by_direction)
    return by_direction[direction]()
