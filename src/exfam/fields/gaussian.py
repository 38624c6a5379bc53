"""The FieldGaussian estimator: a covariance shrunk to a moving kernel, in closed form or nearly."""

from typing import Any

from torch import nn

from exfam.estimator.base import parameter
from exfam.estimator.rules import Families, OrWord
from exfam.fields.choose_family import with_chosen_family
from exfam.fields.declarations import ChosenLags, CovariateColumns
from exfam.fields.explanations import FieldExplanation, explained_base
from exfam.fields.field_base import empty_field_base, fit_field_base, with_chosen_lags
from exfam.fields.field_estimator import FieldEstimator
from exfam.fields.networks.climate import Climate
from exfam.fields.networks.links import check_base_family, limit_of
from exfam.fields.plan import FieldPlan


class FieldGaussian(CovariateColumns, ChosenLags, FieldEstimator):
    """Each value given all others: a Student t from the sites' covariance, shrunk to a kernel.

    Anomalies from each site's course of the year have a covariance: the empirical one, drawn to
    that of a field which moves, forgets and is stretched along any direction. Cross-validation over
    blocks of time chooses the course, how much it is drawn, the number of columns that a value is
    predicted from and the weight of the tails. New sites are read from the kernel. Covariates that
    never change at a site say what is normal at new ones; those that change move the mean.

    {parameters}

    Source: Ledoit & Wolf (2004) for the shrinkage, Kotz & Nadarajah (2004) for the conditionals.

    >>> frame = {"day": [1, 1, 2, 2, 3, 3], "city": ["Oslo", "Bonn"] * 3, "x": [0, 5] * 3,
    ...     "celsius": [5.0, 9.0, 4.0, 7.0, 6.0, 9.0]}
    >>> model = FieldGaussian(time="day", site="city", coordinates="x", value="celsius",
    ...     metric="euclidean")
    >>> model.fit(frame).predict_dist(frame).interval(0.9)[0].shape
    (6,)
    """

    kind = "field-gaussian"
    family: Any = parameter(
        OrWord("auto", Families()),
        '"auto" (what held-out values choose of these), "student-t", "log-student-t" for values '
        'above 0, "censored-student-t" for values from 0 on with zeros, "rounded-root-student-t" '
        "for counts, or an instance such as `CensoredStudentT(root=3)`",
        default="auto",
    )

    def check_family(self, family: Any) -> None:
        """Raise ExfamError unless a base can model values of this family."""
        check_base_family(family)

    def fit_choices(self) -> tuple[Any, float]:
        return "student-t" if self.family == "auto" else self.family, float(
            self.validation_fraction
        )

    def _settled(self, plan: FieldPlan) -> FieldPlan:
        if self.family == "auto":
            plan = with_chosen_family(plan, period=float(self.period))
        return with_chosen_lags(plan, self.lags, period=float(self.period))

    def _fit_parts(self, plan: FieldPlan, climate: Climate) -> list[nn.Module]:
        return [fit_field_base(plan, period=float(self.period))]

    def explain(self, X: Any) -> list[FieldExplanation]:
        """What each value's mean is made of, exactly, for each map of `X`.

        What is normal there, and how much each value around moved it; nothing is attended to.
        """
        inputs = self._inputs(X)
        part: Any = self.members_[0].value_part
        return [
            explained_base(part, inputs.groups, g, given=inputs.given, family=self.family_).like(X)
            for g in range(len(inputs.groups))
        ]

    def _empty_part(self, climate: Climate) -> nn.Module:
        return empty_field_base(
            self.shape_, period=float(self.period), limit=limit_of(self.family_)
        )
