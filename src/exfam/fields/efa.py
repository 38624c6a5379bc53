"""The FieldEFA estimator: exponential family attention over maps, and what it attended to."""

from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import scipy
import torch
from torch import nn

from exfam.checks import ExfamError
from exfam.estimator.base import attribute, parameter
from exfam.estimator.evaluate import value_parameters
from exfam.estimator.gain import Gain
from exfam.estimator.rules import Choice, Families, Flag, OrWord, listed
from exfam.fields.choose_family import with_chosen_family
from exfam.fields.correction.corrected import CorrectedFieldPart
from exfam.fields.data.facts import observed_own
from exfam.fields.declarations import (
    ChosenLags,
    ClimateModel,
    CovariateColumns,
    FieldNetworkParameters,
)
from exfam.fields.explanations import FieldExplanation, explained_base, explained_network
from exfam.fields.field_base import (
    empty_field_base,
    fit_corrected_field,
    fit_field_base,
    with_chosen_lags,
)
from exfam.fields.field_estimator import TrainedField
from exfam.fields.networks.assemble import build_field_network
from exfam.fields.networks.climate import Climate
from exfam.fields.networks.links import anomaly, counts, family_in_units, is_base_family, limit_of
from exfam.fields.networks.network import FieldNetwork
from exfam.fields.plan import FieldPlan
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel

# Elements that the starting values of a fit are taken from, of maps spread over all times.
MOST_START = 1 << 20
# Scales are changed by a factor of e at most when they are calibrated.
MOST_SHIFT = 1.0


class FieldEFA(CovariateColumns, ClimateModel, FieldNetworkParameters, ChosenLags, TrainedField):
    """Spatiotemporal exponential family attention: each value given others on its map and before.

    Inside is the base that `FieldGaussian` fits: a covariance shrunk to a moving kernel. Attention
    corrects its locations and scales at known sites, from zero, by what it did not expect of the
    values around, of amounts and counts those of latent numbers; blocks of time held out decide how
    much of that is kept. All maps are learned from and none are held out, so that `fit` has no use
    for `validation` (whose maps are left alone) and `checkpoint`. With `base="none"`, or a family
    that the base has not, it is the network of the paper alone, to which the parameters of networks
    and training belong.

    {parameters}

    After `fit`: `members_`, `shape_`, `family_`, `vocabulary_`, `site_coordinates_`, `gain_` (what
    attention added to the base; None without, and of fewer than 10 maps), and of a network alone
    `history_` (of the first member) and `histories_`.
    Source: "Exponential Family Attention", section 3.2 and appendix H.4.

    >>> frame = {"day": [1, 1, 2, 2, 3, 3], "city": ["Oslo", "Bonn"] * 3, "x": [0, 5] * 3,
    ...     "celsius": [5.0, 9.0, 4.0, 7.0, 6.0, 9.0]}
    >>> model = FieldEFA(time="day", site="city", coordinates="x", value="celsius",
    ...     metric="euclidean", max_epochs=2, progress=False)
    >>> model.fit(frame).predict_dist(frame).interval(0.9)[0].shape
    (6,)
    """

    kind = "field-efa"
    gain_: Gain | None = attribute()
    family: Any = parameter(
        OrWord("auto", Families()),
        '"auto" (Gaussian without a base; with one what held-out values choose of the next four), '
        '"student-t", "log-student-t" for values above 0, "censored-student-t" for values from 0 '
        'on with zeros, "rounded-root-student-t" for counts, "gaussian", "poisson", '
        '"negative-binomial", or an instance such as `Gaussian(scale=2.0)`',
        default="auto",
    )
    base: str = parameter(
        Choice(("auto", "none")),
        'the simple model that attention corrects: "auto" is that of `FieldGaussian` where the '
        'family is one that this takes; "none" is the network of the paper alone',
        default="auto",
    )
    attention: str = parameter(
        Choice(("softmax", "none")),
        '"softmax", or "none": the base alone',
        default="softmax",
    )
    calibrate: bool = parameter(
        Flag(),
        "whether scales are multiplied, after training, by the factor under which the maps "
        "held out are likeliest: trained ones are too narrow for other years",
        default=True,
    )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        has_base = self._has_base(self.fit_choices()[0])
        if isinstance(self.lags, str) and not has_base:
            raise ExfamError(
                f"`lags` must be a number where there is no base to choose it, got {self.lags!r} "
                f"with base={self.base!r} and family={self.family!r}. Say how many earlier maps "
                "the network sees, such as lags=1."
            )
        if listed(self.covariates) and not has_base:
            raise ExfamError(
                f"`covariates` must be None where there is no base, got {self.covariates!r} with "
                f"base={self.base!r} and family={self.family!r}: a network alone does not see them."
            )
        if self.attention == "none" and not has_base:
            raise ExfamError(
                "`attention` must be 'softmax' where there is no base, got 'none' with "
                f"base={self.base!r} and family={self.family!r}: nothing would be left."
            )

    def check_family(self, family: Any) -> None:
        if not self._has_base(family):
            super().check_family(family)

    def _has_base(self, family: Any) -> bool:
        return self.base == "auto" and is_base_family(family)

    @property
    def _sees_covariates(self) -> bool:
        return self._has_base(self.fit_choices()[0])

    def fit_choices(self) -> tuple[Any, float]:
        family = self.family
        if isinstance(family, str) and family == "auto":
            family = "student-t" if self.base == "auto" else "gaussian"
        return family, 0.0 if self._has_base(family) else float(self.validation_fraction)

    def _settled(self, plan: FieldPlan) -> FieldPlan:
        if self.family == "auto" and self.base == "auto":
            plan = with_chosen_family(plan, period=float(self.period))
        return with_chosen_lags(plan, self.lags, period=float(self.period))

    def _fit_parts(self, plan: FieldPlan, climate: Climate) -> list[nn.Module]:
        self.gain_ = None
        for name in ("history_", "histories_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if not self._has_base(self.fit_choices()[0]):
            return self._fit_networks(plan, climate)
        if self.attention == "none":
            return [fit_field_base(plan, period=float(self.period))]
        part, self.gain_ = fit_corrected_field(
            plan,
            period=float(self.period),
            seeds=range(int(self.seed), int(self.seed) + int(self.ensemble)),
            most_epochs=int(self.max_epochs),
            progress=self.progress,
        )
        return [part]

    def _fit_networks(self, plan: FieldPlan, climate: Climate) -> list[nn.Module]:
        longest, family = int(plan.train.lengths.max()), plan.family
        step = max(1, len(plan.train) * longest // MOST_START)
        batch = plan.train.pad(np.arange(len(plan.train))[::step])
        sampled = batch.observed & batch.target
        (value,) = batch.values.values()
        sample = value if counts(family) else anomaly(value, climate(batch), family)
        start = family.initial_eta(sample[sampled].double()).float()
        start[: family.n_params - family.n_dispersion] = 0.0
        parts = self._train(plan, lambda generator: self._network(climate, start, generator))
        if self.calibrate and plan.validation is not None:
            for part in parts:
                _calibrate(self._member(part), plan.validation)
        return parts

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        config, tensors = super()._state()
        part, gain = self.members_[0].value_part, getattr(self, "gain_", None)
        members: list[Any] = list(part.members) if isinstance(part, CorrectedFieldPart) else []
        inside = {"has_base": not isinstance(part, FieldNetwork), "n_corrections": len(members)}
        if members:
            inside["n_reads"] = int(members[0].n_reads)
        return config | inside | {"gain": None if gain is None else asdict(gain)}, tensors

    def _restore(self, config: Any, tensors: Any, vocabulary: Any) -> None:
        super()._restore(config, tensors, vocabulary)
        if "has_base" not in config:  # older versions had none
            self.base = self.parameters_["base"] = "none"
        gain = config.get("gain")
        self.gain_ = None if gain is None else Gain(**gain)

    def _restored_member(self, config: Any) -> TwoPartModel:
        if not config.get("has_base"):
            return super()._restored_member(config)
        base = empty_field_base(
            self.shape_, period=float(self.period), limit=limit_of(self.family_)
        )
        n_members = int(config["n_corrections"])
        if not n_members:
            return self._member(base)
        n_reads = int(config.get("n_reads", 2))  # older versions corrected no censored values
        return self._member(CorrectedFieldPart(base, n_members=n_members, n_reads=n_reads))

    def _empty_part(self, climate: Climate) -> nn.Module:
        start, generator = torch.zeros(self.family_.n_params), torch.Generator().manual_seed(0)
        return self._network(climate, start, generator)

    def _network(
        self, climate: Climate, start: torch.Tensor, generator: torch.Generator
    ) -> FieldNetwork:
        family = family_in_units(self.family_)
        return build_field_network(
            self.shape_, self, climate=climate, family=family, start=start, generator=generator
        )

    def explain(self, X: Any) -> list[FieldExplanation]:
        """What each value's mean is made of and attended to, for each map of `X`.

        With a base, exactly: what is normal, how much each value around moved it, and attention's
        shift. Attention weights are by layer and head, and of the read-out; of the first member:
        averaging heads of different networks means nothing.
        """
        inputs = self._inputs(X)
        part: Any = self.members_[0].eval().value_part
        explained: Any = partial(explained_base, family=self.family_)
        if isinstance(part, FieldNetwork):
            explained = explained_network
        return [
            explained(part, inputs.groups, g, given=inputs.given).like(X)
            for g in range(len(inputs.groups))
        ]


def _calibrate(member: TwoPartModel, groups: Groups) -> None:
    """Widen or narrow the member's distributions until these groups' values are likeliest."""
    ((name, family),) = member.families.items()
    own = observed_own(groups)
    if not family.n_dispersion or not len(own):
        return
    eta = value_parameters([member], groups)[name][0][own].double()
    value = torch.from_numpy(groups.values[name][own]).double()
    column = torch.zeros(family.n_params, dtype=eta.dtype)
    column[family.n_params - family.n_dispersion] = 1.0

    def nats(shift: float) -> float:
        return -float(family.log_prob(value, eta + shift * column).mean())

    fit = scipy.optimize.minimize_scalar(nats, bounds=(-MOST_SHIFT, MOST_SHIFT), method="bounded")
    network: Any = member.value_part  # nn.Module's attributes have no better type
    network.head.widen(float(fit.x) if fit.fun < nats(0.0) else 0.0)
