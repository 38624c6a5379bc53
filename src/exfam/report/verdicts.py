"""Sentences that say who is ahead, and by how much."""

from collections.abc import Mapping

import numpy as np

from exfam.report.words import figure, listing
from exfam.scores.metrics import Estimate, Interval


def with_error(estimate: Estimate) -> str:
    """A mean with its standard error, if it has one."""
    mean = figure(estimate.mean)
    return mean if np.isnan(estimate.error) else f"{mean} ± {figure(estimate.error)}"


def verdict_of(behind: Mapping[str, Interval]) -> str:
    """Which baselines are ahead, then which are as good; with a blank behind, or nothing.

    `behind`: by how many nats each is behind the model, mean and interval
    """
    ahead = [rival for rival, interval in behind.items() if interval.high < 0]
    unclear = [rival for rival, interval in behind.items() if interval.low <= 0 <= interval.high]
    verdict = ""
    if ahead:
        nats = -min(behind[rival].mean for rival in ahead)
        verdict = (
            f"Ahead of this model in nats: {listing(ahead)}, by {figure(nats)} at most. Use the "
            "best of them, or fit this model to more data or with other settings. "
        )
    elif behind and not unclear:
        verdict = "This model is ahead of all baselines in nats. "
    if unclear:
        verdict += f"No clear difference from this model: {listing(unclear)}. "
    return verdict


def comparison_sentence(what: str, behind: Mapping[str, Interval]) -> str:
    """One sentence: where the model stands among baselines; `what`: what is predicted."""
    if not behind:
        return ""
    order = sorted(behind, key=lambda rival: behind[rival].mean)
    best = order[0]
    low, mean, high = (getattr(behind[best], end) for end in ("low", "mean", "high"))
    gap = f"{figure(mean)} nats (95 % interval {figure(low)} to {figure(high)})"
    n = len(behind)
    names = best if n == 1 else f"{best}, the best of {n} baselines"
    if low > 0:
        return f"Of {what}, the model is ahead of {names}, by {gap}."
    if high < 0:
        return f"Of {what}, the baseline {best} is ahead of the model, by {figure(-mean)} nats."
    return f"Of {what}, there is no clear difference from {names}: the model is ahead by {gap}."
