"""What a correction added to its base."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

Sums = Float[np.ndarray, "groups"]


@dataclass(frozen=True)
class Gain:
    """What the correction added to its base on the validation groups, in nats a target.

    `low`, `high`: a 95 % interval by groups. The same groups chose the epoch and the weights, so
    that new data gain a little less. `base_nats`: of the base alone, there. `scale`, `gate`: the
    weights of the base and of the correction; `mix`: the share that probabilities of the base alone
    have beside. `part`, `groups`: what the sentence calls the correction and the groups.
    """

    base_nats: float
    nats: float
    low: float
    high: float
    n_groups: int
    scale: float
    gate: float
    mix: float = 0.0
    part: str = "Attention"
    groups: str = "validation groups"

    def __str__(self) -> str:
        if not self.gate:
            return (
                f"{self.part} added nothing that validation could see, and is switched off: "
                "predictions are those of the base."
            )
        return (
            f"{self.part} added {self.nats:.3f} nats an element to its base (95 % interval "
            f"{self.low:.3f} to {self.high:.3f}, {self.n_groups:,} {self.groups})."
        )


def gain_of_sums(
    added: Sums,
    size: Sums,
    base: float,
    *,
    weights: tuple[float, ...],
    part: str = "Attention",
    groups: str = "validation groups",
) -> Gain:
    """The gain of groups: what was added to each, how many targets it has, all nats of the base.

    `weights`: scale, gate and, where there is one, mix; `part`: what is gated; `groups`: by what
    """
    n, n_groups = max(1, int(size.sum())), int((size > 0).sum())
    mean = float(added.sum() / n)
    # The error of a ratio of sums over groups; of a single group nothing is known of it.
    rest = np.square(added - mean * size).sum() * n_groups / max(1, n_groups - 1)
    times = float(stdtrit(max(1, n_groups - 1), 0.975))
    half = times * math.sqrt(rest) / n if n_groups > 1 else math.inf
    half = half if weights[1] else 0.0
    scale, gate, mix = (*weights, 0.0)[:3]
    return Gain(base / n, mean, mean - half, mean + half, n_groups, scale, gate, mix, part, groups)


def gain_sentences(model: Any) -> list[str]:
    """What attention added in a model's fit, a sentence for each part that has a base.

    And what value columns add to later ones of their element.
    """
    if isinstance(by_part := getattr(model, "gains_", None), dict):
        return [str(gain) for gain in by_part.values()]
    names = ("gain_", "value_gain_", "column_gain_")
    gain, of_values, columns = (getattr(model, name, None) for name in names)
    both = gain is not None and of_values is not None
    said = [f"Items: {gain}", f"Values: {of_values}"] if both else [str(gain)] * (gain is not None)
    return said if columns is None else [*said, str(columns)]
