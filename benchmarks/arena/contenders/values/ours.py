"""exfam's estimators of values.

`efa` is EFA() with its defaults, which choose the family too; `efa-base` is its base alone. Others
are given the family of the data's form. A further estimator is a line of `CONTENDERS`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from benchmarks.arena.kind import Contender, Fitted
from benchmarks.arena.values.data import ValueData
from benchmarks.arena.values.distributions import OfMixture

from exfam import EFA, LatentFactor
from exfam.estimator.evaluate import value_parameters
from exfam.families import Family, Gaussian, NegativeBinomial, Ordinal
from exfam.families.mixtures import Mixture
from exfam.groups import Groups
from exfam.groups.arrange import compact, concatenate


def family_of(data: ValueData) -> Family:
    """The family of that form."""
    low, high = data.limits
    if data.form == "ordinal":
        return Ordinal(int(high - low) + 1, start=int(low))
    return NegativeBinomial(shift=int(low > 0)) if data.form == "count" else Gaussian()


def fitting(
    build: Callable[..., Any], *, by_form: bool = True, **options: Any
) -> Callable[[ValueData, int], Fitted]:
    """Fit an estimator of values to the training and validation groups.

    `by_form`: whether it is given a family
    """

    def fit(data: ValueData, seed: int) -> Fitted:
        given = {"family": {"value": family_of(data)}} if by_form else {}
        model = build(direction=data.direction, seed=seed, **given, **options)
        # Estimators hold out groups of their own.
        model.fit(compact(concatenate([data.train, data.validation])))

        def predict(groups: Groups) -> Any:
            own = compact(groups)
            eta = value_parameters(model.members_, own)["value"].double()
            item = torch.as_tensor(np.asarray(own.item).astype(np.int64))
            mixture = Mixture(model.members_[0].families["value"], eta, item)
            return OfMixture(mixture, data.form)

        settings = {"parameters": model.get_params(deep=False), "family": str(model.family_)}
        if hasattr(model, "histories_"):
            settings["epochs"] = len(model.histories_[0].rows)
        return Fitted(predict, settings=settings)

    return fit


_VALUES: dict[str, Any] = {"parts": "values", "progress": False}

CONTENDERS = {
    "efa": Contender(
        label="EFA()", fit=fitting(EFA, by_form=False, **_VALUES), ours=True, is_random=True
    ),
    "efa-base": Contender(
        label="EFA(attention='none')",
        fit=fitting(EFA, by_form=False, attention="none", **_VALUES),
        ours=True,
    ),
    "latent-factor": Contender(
        label="LatentFactor()", fit=fitting(LatentFactor, **_VALUES), ours=True
    ),
    "levels": Contender(
        label="LatentFactor(dim=0)", fit=fitting(LatentFactor, dim=0, **_VALUES), ours=True
    ),
}
