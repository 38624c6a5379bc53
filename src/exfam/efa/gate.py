"""How much of a correction to keep: validation weighs it against its base."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from scipy.special import stdtrit
from torch import Tensor

from exfam.efa.base.scoring import Tile, fit_numbers, rows_of_tiles
from exfam.efa.networks.based import BasedItems
from exfam.estimator.evaluate import log_probs
from exfam.groups import Groups
from exfam.groups.arrange import sequential_batches
from exfam.likelihoods.two_part import TwoPartModel

# Targets that the two numbers are fitted to, and outputs of theirs at most.
MOST_TARGETS, MOST_OUTPUTS = 4_000, 20_000_000
# How firmly the base is held as it is and the correction at 0, in nats of all targets together; a
# correction that gains less than this in all of them is switched off.
_HOLD = 2.0


@dataclass(frozen=True)
class Gain:
    """What the correction added to its base on the validation groups, in nats a target.

    `low`, `high`: a 95 % interval by groups. The same groups chose the epoch and the weights, so
    that new data gain a little less. `base_nats`: of the base alone, there. `gates`: the weight of
    each member's correction.
    """

    base_nats: float
    nats: float
    low: float
    high: float
    n_groups: int
    gates: tuple[float, ...]

    def __str__(self) -> str:
        if not any(self.gates):
            return (
                "Attention added nothing that validation could see, and is switched off: "
                "predictions are those of the base."
            )
        return (
            f"Attention added {self.nats:.3f} nats an element to its base (95 % interval "
            f"{self.low:.3f} to {self.high:.3f}, {self.n_groups:,} validation groups)."
        )

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Gain":
        """From its fields as plain numbers."""
        return cls(**(config | {"gates": tuple(config["gates"])}))


def set_gates(members: Sequence[TwoPartModel], validation: Groups, *, seed: int) -> Gain | None:
    """Weigh each member's correction against its base; None for models without a base.

    Corrections whose gain may be chance, since its interval reaches 0, are switched off.
    """
    parts: list[Any] = [member.item_part for member in members]
    if not all(isinstance(part, BasedItems) for part in parts):
        return None
    for member, part in zip(members, parts, strict=True):
        _set_gate(member, part, validation, seed=seed)
    gain = _gain(members, parts, validation)
    if gain.low > 0 or not any(gain.gates):
        return gain
    for part in parts:
        part.scale.fill_(1.0)
        part.gate.fill_(0.0)
    return Gain(gain.base_nats, 0.0, 0.0, 0.0, gain.n_groups, (0.0,) * len(parts))


def _set_gate(member: TwoPartModel, part: Any, validation: Groups, *, seed: int) -> None:
    if not any(parameter.requires_grad for parameter in part.correction.parameters()):
        part.gate.fill_(0.0)
        return
    base, correction, support, item = _outputs(member, part, validation, seed=seed)
    n = max(1, len(item))

    def tiles(weights: Tensor) -> Iterator[Tile]:
        for rows in rows_of_tiles(*base.shape):
            slopes = [base[rows], correction[rows]]
            eta = weights[0] * slopes[0] + weights[1] * slopes[1] + support[rows]
            yield eta, slopes, item[rows], torch.ones_like(eta[:, :1])

    alone, hold = torch.tensor([1.0, 0.0]), _HOLD / n
    weights, with_it = fit_numbers(tiles, start=torch.ones(2), center=alone, hold=hold)
    _, without = fit_numbers(tiles, start=alone, center=alone, hold=hold, n_steps=0)
    if weights[1] <= 0 or (without - with_it) * n < _HOLD:
        weights = alone
    part.scale.copy_(weights[0])
    part.gate.copy_(weights[1])


def _outputs(
    member: TwoPartModel, part: Any, validation: Groups, *, seed: int
) -> tuple[Tensor, Tensor, Tensor, Int64[Tensor, "rows"]]:
    """Base, correction and what the support adds, of all items at some targets; their own items."""
    member.eval()
    most = max(100, min(MOST_TARGETS, MOST_OUTPUTS // part.n_items))
    order = np.random.default_rng([seed, 9]).permutation(len(validation))
    sizes = (validation.stop - validation.start)[order]
    some = validation[np.sort(order[: int(np.searchsorted(np.cumsum(sizes), most)) + 1])]
    codes = torch.arange(part.n_items, device=part.gate.device)
    support: Any = member.support
    parts: list[tuple[Tensor, ...]] = []
    with torch.no_grad():
        # Of a large catalog the outputs of a few elements are many.
        for index in sequential_batches(some, max_tokens=max(1, MOST_OUTPUTS // part.n_items)):
            batch = some.pad(index).to(codes.device)
            assert batch.item is not None
            where = (batch.target & (batch.item >= 0)).nonzero(as_tuple=True)
            correction = part.correction.eta(batch)
            added = support(torch.zeros_like(correction), batch, member.direction)
            base = part.base.outputs(batch, where, codes)
            parts.append((base, correction[where], added[where], batch.item[where].long()))
    base, correction, added, item = (torch.cat(part)[:most] for part in zip(*parts, strict=True))
    return base, correction, added, item


def _gain(members: Sequence[TwoPartModel], parts: Sequence[Any], validation: Groups) -> Gain:
    """Nats with the correction less those without, by groups."""
    kept = [(part.scale.clone(), part.gate.clone()) for part in parts]
    gates = tuple(round(float(gate), 4) for _, gate in kept)
    with_it = log_probs(members, validation)["item"]
    for part in parts:
        part.scale.fill_(1.0)
        part.gate.fill_(0.0)
    without = log_probs(members[:1], validation)["item"]
    for part, (scale, gate) in zip(parts, kept, strict=True):
        part.scale.copy_(scale)
        part.gate.copy_(gate)
    own = validation.elements()
    group = np.repeat(np.arange(len(validation)), validation.stop - validation.start)
    added = (with_it - without)[own]
    counts = ~np.isnan(added)
    total = np.bincount(group[counts], weights=added[counts], minlength=len(validation))
    size = np.bincount(group[counts], minlength=len(validation))
    n = max(1, int(size.sum()))
    mean, base_nats = float(total.sum() / n), float(without[own][counts].sum() / n)
    n_groups = int((size > 0).sum())
    # The error of a ratio of sums over groups; of a single group nothing is known of it.
    rest = np.square(total - mean * size).sum() * n_groups / max(1, n_groups - 1)
    times = float(stdtrit(max(1, n_groups - 1), 0.975))
    half = times * math.sqrt(rest) / n if n_groups > 1 else math.inf
    half = half if any(gates) else 0.0
    return Gain(base_nats, mean, mean - half, mean + half, n_groups, gates)
