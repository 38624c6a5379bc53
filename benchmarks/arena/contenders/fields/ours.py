"""exfam's estimators of fields.

`field-gaussian` and `field-efa` have their defaults. Other closed forms are fitted with every
choice to training maps, and with the one of least nats on validation once more to all. A further
estimator is a line of `CONTENDERS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from benchmarks.arena.contenders.fields.rules import at_known_sites, without_height
from benchmarks.arena.fields.data import FieldData, Maps
from benchmarks.arena.fields.judge import best_on_validation
from benchmarks.arena.fields.normals import KINDS
from benchmarks.arena.kind import Contender, Fitted
from benchmarks.arena.values.distributions import OfMixture

import exfam.fields
from exfam.families.mixtures import Mixture
from exfam.groups import Groups

STANDARDIZE: Sequence[dict[str, Any]] = tuple({"standardize": kind} for kind in KINDS)


def closed_form(
    name: str, *, choices: Sequence[dict[str, Any]] = STANDARDIZE
) -> Callable[[FieldData, int], Fitted]:
    """Fit the estimator of that name with each choice, and all else by default."""

    def fit(data: FieldData, seed: int) -> Fitted:
        candidates = ((choice, _fitted(name, data, choice)) for choice in choices)
        return best_on_validation(candidates, data)

    return fit


def default(name: str, **options: Any) -> Callable[[FieldData, int], Fitted]:
    """Fit an estimator that chooses by itself to the training and validation maps."""

    def fit(data: FieldData, seed: int) -> Fitted:
        declared = getattr(exfam.fields, name)().get_params(deep=False)
        own = {"seed": seed, "progress": False}
        given = {**options, **{key: own[key] for key in own.keys() & declared.keys()}}
        # All there is to fit to has been fitted to.
        return replace(_fitted(name, data.with_train(data.both), given), refit=None)

    return fit


def by_height(data: FieldData, seed: int) -> Fitted:
    """FieldGaussian with heights for a covariate of sites, not for a coordinate."""
    fitted = _fitted("FieldGaussian", data.with_train(data.both), {}, grouped=with_heights)
    return replace(fitted, refit=None)


def _fitted(
    name: str,
    data: FieldData,
    options: dict[str, Any],
    *,
    grouped: Callable[[Maps, FieldData], Groups] | None = None,
) -> Fitted:
    grouped = grouped or groups_of
    estimator = getattr(exfam.fields, name)
    has_lags = "lags" in estimator().get_params(deep=False)
    lagged = {"lags": data.lags, "step": 1.0} if has_lags else {}
    model = estimator(metric=data.metric, period=data.period, **lagged, **options)
    model.fit(grouped(data.train, data))

    def predict(maps: Maps) -> Any:
        mixture = model.predict_dist(grouped(maps, data)).mixture
        # Elements are of values that are shown or to be predicted.
        eta = mixture.eta[:, maps.target[maps.shown | maps.target]].double()
        return OfMixture(Mixture(mixture.family, eta), "real")

    settings: dict[str, Any] = {"parameters": model.get_params(deep=False)}
    if hasattr(model, "histories_"):
        settings["epochs"] = len(model.histories_[0].rows)
    if getattr(model, "gain_", None) is not None:
        settings["gain"] = str(model.gain_)
    return Fitted(predict, settings=settings, refit=lambda other: _fitted(name, other, options))


def groups_of(maps: Maps, data: FieldData) -> Groups:
    """Field groups of the maps, hidden values missing; those before are context alone."""
    own = maps.shown | maps.target
    stop = np.cumsum(own.sum(1))
    site, value = own.nonzero()[1], maps.visible[own]
    further: dict[str, Any] = {}
    if data.lags:
        seen = ~np.isnan(maps.before)
        end = len(site) + np.cumsum(seen.sum(1))
        further = {"context_start": (end - seen.sum(1))[:, None], "context_stop": end[:, None]}
        site = np.concatenate([site, seen.nonzero()[1]])
        value = np.concatenate([value, maps.before[seen]])
    places = data.coordinates[site]
    return Groups(
        start=stop - own.sum(1),
        stop=stop,
        item=site.astype(np.int32),
        values={"value": value},
        attributes={"coordinates": places},
        group_attributes={"time": maps.time.astype(np.float64)},
        position=places,
        observed=~np.isnan(value),
        vocabulary={"item": np.arange(data.n_items)},
        **further,
    )


def with_heights(maps: Maps, data: FieldData) -> Groups:
    """The same groups, the last coordinate a covariate."""
    groups = groups_of(maps, data)
    places = groups.attributes["coordinates"]
    flat, height = places[:, :-1], places[:, -1:]
    return groups.with_(attributes={"coordinates": flat, "covariates": height}, position=flat)


CONTENDERS = {
    "field-gaussian": Contender(label="FieldGaussian()", fit=default("FieldGaussian"), ours=True),
    "field-gaussian-height": Contender(
        label="FieldGaussian(covariates=height)",
        fit=by_height,
        ours=True,
        unsuited=without_height,
    ),
    "field-efa": Contender(label="FieldEFA()", fit=default("FieldEFA"), ours=True, is_random=True),
    "field-efa-network": Contender(
        label="FieldEFA(base='none')",
        fit=default("FieldEFA", base="none"),
        ours=True,
        is_random=True,
    ),
    "field-gaussian-process": Contender(
        label="FieldGaussianProcess", fit=closed_form("FieldGaussianProcess"), ours=True
    ),
    "field-kriging": Contender(label="FieldKriging", fit=closed_form("FieldKriging"), ours=True),
    "field-ridge": Contender(
        label="FieldRidge", fit=closed_form("FieldRidge"), ours=True, unsuited=at_known_sites
    ),
    "field-ridge-covariance": Contender(
        label="FieldRidgeCovariance",
        fit=closed_form("FieldRidgeCovariance"),
        ours=True,
        unsuited=at_known_sites,
    ),
    "field-climatology": Contender(
        label="FieldClimatology", fit=closed_form("FieldClimatology"), ours=True
    ),
}
