"""The cheapest baseline with the same face: frequencies and distributions, no context."""

from typing import Any

import torch

from exfam.efa.declarations import PARTS, LacksVectors, OnlyIn
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.networks.marginals import MarginalItems, MarginalValues, fit_marginal_values
from exfam.efa.offset_column import OffsetColumn
from exfam.efa.plan import FitPlan, log_frequencies
from exfam.estimator.base import parameter
from exfam.estimator.rules import Choice, Flag, Positive
from exfam.likelihoods.two_part import SUPPORTS, TwoPartModel


class Marginal(OffsetColumn, LacksVectors, GroupEstimator):
    """Item frequencies and one distribution of values for all, or for each item; no context.

    The baseline that counts, without training, attributes or positions. With hard support the
    frequencies are renormalized over the items not in the context.

    {parameters}

    >>> frame = {"user": [1, 1, 2], "movie": ["a", "b", "a"]}
    >>> model = Marginal(group="user", item="movie", support="none").fit(frame)
    >>> model.predict_proba(frame)[0].round(3)
    array([0.6, 0.4])
    """

    kind = "marginal"
    direction: str = parameter(
        text='which context hard support excludes, "bidirectional" or "causal"',
        default="bidirectional",
    )
    parts: str = parameter(
        Choice(PARTS), '"items", "values", "both", or "auto": what the data have', default="auto"
    )
    support: str = parameter(
        Choice(("auto", "hard", "none")),
        '"none", "hard", or "auto": hard if no group of the data repeats an item',
        default="auto",
    )
    by_item: bool = parameter(
        Flag(),
        "whether items have distributions of their own, drawn to the global one",
        default=False,
    )
    smoothing: float = parameter(Positive(), "occurrences added to every item", default=1.0)
    validation_fraction: float = parameter(
        text="share of the groups held out; a fit without choices does not use them", default=0.0
    )
    seed: int = parameter(
        text="of that split; groups are numbered as they first appear in the data, so that another"
        " order of the rows is another split",
        default=0,
    )
    unknown: str = parameter(
        text='items never seen in training: "unk" (keep them as unknown, with a warning that '
        'counts them), "ignore" (leave such elements out) or "error"',
        default="unk",
    )
    attributes = group_attributes = known = ()
    position = None
    explain = OnlyIn("EFA")
    explain_item = OnlyIn("EFA")

    def _fit_members(self, plan: FitPlan) -> None:
        n_items = plan.schema.n_items or 0
        item_part = value_part = None
        counts: dict[str, Any] = {"weight": plan.weight}
        if plan.items:
            smoothing = float(self.smoothing)
            item_part = MarginalItems(
                log_frequencies(plan.train, n_items, smoothing=smoothing, **counts)
            )
        if plan.values:
            counts |= {"n_items": n_items if self.by_item else 0}
            counts |= {"exposure": plan.schema.exposure}
            value_part = fit_marginal_values(plan.train, plan.schema.families, **counts)
        self.members_ = [self._member(item_part, value_part)]

    def _member(
        self, item_part: MarginalItems | None, value_part: MarginalValues | None
    ) -> TwoPartModel:
        return TwoPartModel(
            direction=self.direction,
            item_part=item_part,
            value_part=value_part,
            families=None if value_part is None else self.schema_.families,
            exposure=None if value_part is None else self.schema_.exposure,
            support=SUPPORTS[self.support_](),
        )

    def _build(self, generator: torch.Generator, *, items: bool, values: bool) -> TwoPartModel:
        n_items = self.schema_.n_items or 0
        n_params = sum(family.n_params for family in self.schema_.families.values())
        rows = n_items + 1 if self.by_item else 1
        return self._member(
            MarginalItems(torch.zeros(n_items)) if items else None,
            MarginalValues(torch.zeros(rows, n_params)) if values else None,
        )
