"""exfam's estimators with their defaults."""

from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.arena.kind import Contender, Data, Fitted

from exfam import EFA, LatentFactor
from exfam.estimator.evaluate import item_log_probs
from exfam.groups import Groups
from exfam.groups.arrange import concatenate


def _fitting(build: Callable[..., Any], **options: Any) -> Callable[[Data, int], Fitted]:
    def fit(data: Data, seed: int) -> Fitted:
        model = build(
            direction=data.direction,
            support="hard" if data.exclude else "none",
            seed=seed,
            progress=False,
            **options,
        )
        # Estimators hold out groups of their own, at random.
        model.fit(concatenate([data.train, data.validation]))
        gain = getattr(model, "gain_", None)
        settings = {"parameters": model.get_params(deep=False), "gain": gain and str(gain)}
        if hasattr(model, "histories_"):
            settings["epochs"] = len(model.histories_[0].rows)
        return Fitted(lambda groups: log_probs(model, groups, data.n_items), settings=settings)

    return fit


def log_probs(model: Any, groups: Groups, n_items: int) -> np.ndarray:
    """Log-probabilities of all items at every element, in the order of the elements."""
    out = np.full((groups.n_rows, n_items), np.nan)
    for rows, nats in item_log_probs(model.members_, groups):
        out[rows] = nats
    return out[groups.elements()]


CONTENDERS = {
    "efa": Contender(label="EFA()", fit=_fitting(EFA), ours=True, is_random=True),
    "efa-base": Contender(
        label='EFA(attention="none")', fit=_fitting(EFA, attention="none"), ours=True
    ),
    "efa-without-base": Contender(
        label='EFA(base="none")', fit=_fitting(EFA, base="none"), ours=True, is_random=True
    ),
    "latent-factor": Contender(
        label="LatentFactor()", fit=_fitting(LatentFactor), ours=True, is_random=True
    ),
}
