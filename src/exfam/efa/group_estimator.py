"""The face that all estimators of grouped data share: fit, score, predict, save, load."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from exfam.checks import ExfamError, check_choice, check_whole
from exfam.columns.label_index import IndexedVocabulary
from exfam.columns.parts import ROWS, FrameColumns
from exfam.efa.declarations import GroupColumnNames, GroupModel, GroupSplit
from exfam.efa.inputs import Inputs, check_no_repeats, data_counts, read_group_inputs
from exfam.efa.plan import FitPlan, check_order, check_part_names, plan_fit
from exfam.efa.recommend import Recommendations, chosen_groups, recommend
from exfam.efa.related import Relations, relations
from exfam.efa.requests import RequestCache, requests_of
from exfam.efa.sampling import continue_groups, fill_in
from exfam.efa.similar import Similar, similar_groups, similar_items
from exfam.estimator.base import Estimator, attribute
from exfam.estimator.evaluate import (
    check_size,
    chosen_levels,
    item_probabilities,
    item_ranks,
    log_probs,
    top_items,
    total_nats,
    value_parameters,
)
from exfam.estimator.record import recorded
from exfam.estimator.rules import check_distinct, listed
from exfam.estimator.schema import Schema
from exfam.estimator.seen import Overlap, Seen, overlap_of_groups, seen_groups
from exfam.families import Scaled
from exfam.families.mixtures import Mixture
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel


class GroupEstimator(GroupColumnNames, GroupModel, GroupSplit, Estimator, ABC):
    """Estimators of p(observation | context) over groups, with scikit-learn's conventions.

    Data are `Groups`, any frame (pandas, polars, pyarrow, dict of columns) or file that
    `exfam.read` takes, with the column names given to the constructor, a prepared folder, or
    items alone: a list of them, a list of such lists, or {item: count}, one or a list of these.
    Outputs have one entry a row of the frame or file, or one an own element of the groups.
    """

    parts: str
    members_: list[TwoPartModel] = attribute()
    schema_: Schema = attribute()
    vocabulary_: dict[str, np.ndarray] = attribute()
    support_: str = attribute()
    ordered_: bool = attribute()
    seen_: Seen = attribute()

    @abstractmethod
    def _fit_members(self, plan: FitPlan) -> None:
        """Set `members_` and whatever else the fit leaves behind."""

    @abstractmethod
    def _build(self, generator: torch.Generator, *, items: bool, values: bool) -> TwoPartModel:
        """A member of these parts, by the schema, its numbers to be trained or loaded."""

    @recorded
    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        validation: Any = None,
        sample_weight: Any = None,
        checkpoint: str | Path | None = None,
    ) -> "GroupEstimator":
        """Fit to `X`: Groups, a frame, or the path of a file or a prepared folder.

        `validation`: data that choose when to stop; a share of the groups unless given.
        `sample_weight`: one weight an element; a base of values lacks those of weight 0 and takes
        all others alike. `checkpoint`: a folder from which a fit that was
        interrupted or killed goes on to the same bits.
        Raises SupportError for values that the family cannot produce, naming the row.
        """
        self._check_parameters()
        given = {"validation": validation, "sample_weight": sample_weight, "checkpoint": checkpoint}
        return self._fit_plan(plan_fit(self, X, **given))

    def _fit_plan(self, plan: FitPlan) -> "GroupEstimator":
        # A fit that fails must not leave the last one's members beside this one's schema.
        for name in ("members_", "histories_"):
            self.__dict__.pop(name, None)
        self.parameters_ = self.get_params(deep=False)
        self.vocabulary_, self.schema_ = plan.vocabulary, plan.schema
        self.support_, self.ordered_ = plan.support, plan.train.ordered
        seen = [plan.train] if plan.validation is None else [plan.train, plan.validation]
        self.seen_ = seen_groups(seen)
        self.data_counts_ = data_counts(seen)
        self._fit_members(plan)
        self._begin_requests()
        return self

    def seen_in_fit(self, X: Any) -> Overlap:
        """Which groups of `X` the model was fitted on, or its epoch was chosen by.

        Groups are the same if label, items and values are; those of a label that the fit had are
        also seen if it had half of their elements. Some groups without labels are equal by chance:
        `Overlap` has the number to expect. All are unknown (NaN) of models that older
        versions saved.
        """
        return self._seen(self._inputs(X).groups).like(X)

    def _seen(self, groups: Groups) -> Overlap:
        return overlap_of_groups(self, groups)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        names = ("value", "attributes", "group_attributes")
        columns = {name: listed(getattr(self, name)) for name in names}
        check_distinct(columns)
        if self.item is not None and self.parts != "values":
            check_part_names(columns)

    def log_prob(self, X: Any) -> Float[np.ndarray, "rows"]:
        """Log-probability in nats of every element given its context: item and values added.

        NaN for rows that are no target, and for those of unknown items where items are predicted.
        """
        return total_nats(self.log_prob_parts(X))

    def log_prob_parts(self, X: Any) -> dict[str, Float[np.ndarray, "rows"]]:
        """Log-probabilities in nats of "item" and of each value column, one a row.

        NaN where a row is no target of the part, as that of an unknown item is none of "item".
        """
        inputs = self._inputs(X)
        parts = log_probs(self.members_, inputs.groups)
        return {name: inputs.spread(flat) for name, flat in parts.items()}

    def score(self, X: Any, y: None = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood in nats of a target element, by their weights; higher is better.

        Elements of unknown items are left out where items are predicted, with a warning that counts
        them. With direction="bidirectional" it is a pseudo-log-likelihood.
        """
        return sum(self.score_parts(X, sample_weight).values())

    def score_parts(self, X: Any, sample_weight: Any = None) -> dict[str, float]:
        """The terms of `score`: "items" and each value column; they add up to it."""
        inputs = self._inputs(X)
        nats: dict[str, float] = {}
        total = 0.0
        for groups, weight in inputs.pieces(inputs.weights(sample_weight)):
            parts = log_probs(self.members_, groups)
            counted = ~np.isnan(total_nats(parts))
            weights = counted.astype(float) if weight is None else np.where(counted, weight, 0.0)
            total += float(weights.sum())
            for part, flat in parts.items():
                # An impossible observation is minus infinity, and stays that; NaN is no target of
                # a part.
                rows, name = (weights > 0) & ~np.isnan(flat), "items" if part == "item" else part
                nats[name] = nats.get(name, 0.0) + float((flat[rows] * weights[rows]).sum())
        if not total:
            raise ExfamError(
                "`X` must hold at least one target of positive weight to score, got none."
            )
        return {name: summed / total for name, summed in nats.items()}

    def predict(
        self,
        X: Any,
        *,
        quantiles: Sequence[float] | None = None,
        interval: float | None = None,
    ) -> Any:
        """Predicted values of every element given its context.

        They are means, or medians of families without a mean, unless quantiles are named.
        `quantiles`: levels in (0, 1), one column each. `interval`: a central probability, giving
        two columns, its ends. One array a value column, in a dict if there are several; without a
        value part, the labels of the most probable items.
        """
        levels = chosen_levels(quantiles, interval)
        inputs = self._inputs(X)
        if not self.schema_.values:
            if levels is not None:
                name = "interval" if quantiles is None else "quantiles"
                raise ExfamError(
                    f"`{name}` needs a model with values, got one of items only. "
                    "Use predict_proba for the probabilities of all items."
                )
            flat = np.full(inputs.groups.n_rows, np.nan)
            for rows, items, _ in top_items(self.members_, inputs.groups, k=1):
                flat[rows] = items[:, 0]
            codes = np.nan_to_num(inputs.spread(flat), nan=-1).astype(int)
            return self._vocabulary.index("item").names_of(codes)
        if levels is None:
            return self._of_values(inputs, Mixture.center)
        return self._of_values(
            inputs, lambda mixture: torch.stack([mixture.quantile(p) for p in levels], -1)
        )

    def predict_variance(self, X: Any) -> Any:
        """Variances of the values given their contexts; as `predict` otherwise."""
        return self._of_values(self._inputs(X), Mixture.variance)

    def predict_proba(self, X: Any, *, of: str | None = None) -> Float[np.ndarray, "rows classes"]:
        """Probabilities of all items (`of="item"`), or of a finite value column's categories.

        `of` is the item unless there is no item part. Columns follow `vocabulary_["item"]` or
        the family's `categories`. Raises ExfamError where all items' probabilities would take more
        than 8 GB.
        """
        inputs = self._inputs(X)
        names = (["item"] if self._has_items else []) + list(self.schema_.families)
        chosen = names[0] if of is None else of
        check_choice("of", chosen, names)
        if chosen != "item":
            return np.asarray(self._of_values(inputs, Mixture.probs, columns=(chosen,)))
        n_rows, n_items = inputs.groups.n_rows, int(self.schema_.n_items or 0)
        check_size(n_rows, n_items)
        flat = np.full((n_rows, n_items), np.nan)
        for rows, chances in item_probabilities(self.members_, inputs.groups):
            flat[rows] = chances
        return inputs.spread(flat)

    def item_ranks(self, X: Any) -> Float[np.ndarray, "rows"]:
        """Rank of every target's item among all by probability, 1 the most probable, one a row.

        Equals share the mean of their ranks, unknown items have rank infinity; NaN for rows that
        are no target.
        """
        inputs = self._inputs(X)
        return inputs.spread(item_ranks(self.members_, inputs.groups))

    def recommend(
        self, X: Any, *, k: int = 10, groups: Sequence[Any] | None = None
    ) -> Recommendations:
        """The `k` most probable further items of each group, with their probabilities.

        Causal: the next item. Bidirectional: one more item of the group; where the model has
        positions, averaged over the gaps that it may be in. Over the whole catalog; the
        probabilities of all items sum to 1.
        `groups`: labels of those to recommend to, in this order; all unless given
        """
        those = self._inputs(X).groups
        those = those if groups is None else chosen_groups(those, groups)
        in_gaps = self.direction == "bidirectional" and self._has_positions
        fitted = self.members_, self.schema_
        return recommend(*fitted, those, self.vocabulary_, k=k, in_gaps=in_gaps).like(X)

    def complements(self, item: Any, *, k: int = 10) -> Relations:
        """Items that `item` makes more likely, and that make it more likely, in nats."""
        return self._relations(item, k=k, alike=False)

    def substitutes(self, item: Any, *, k: int = 10) -> Relations:
        """Items called for by the same contexts as `item`, but not by `item` itself."""
        return self._relations(item, k=k, alike=True)

    def _relations(self, item: Any, *, k: int, alike: bool) -> Relations:
        self._check_fitted()
        return self._framed(relations(self, item, k=k, alike=alike))

    def similar_items(self, items: Any, *, k: int = 10) -> Similar:
        """The `k` items most similar to an item, or to each of a list, by label.

        Those that the same other items call for: cosines of the weights in their scores, by the
        base, EASE or neighbors; of models without these, of center vectors, and of values, of
        loadings. `Similar.by` says which. What goes with an item, rather than in its place, is
        `complements`.
        Raises UnknownItemError for an item not seen in training, ExfamError for a model without
        context, such as `Popularity`.
        """
        return similar_items(self, items, k=k)

    def similar_groups(self, X: Any, among: Any = None, *, k: int = 10) -> Similar:
        """The `k` groups most similar to each group of `X`, by label.

        Their items are alike, or similar: cosines of the means of the vectors of `similar_items`.
        `among`: the groups to choose from, as `X` is given; the others of `X` unless given
        """
        groups = self._inputs(X).groups
        others = None if among is None else self._inputs(among).groups
        return similar_groups(self, groups, others, k=k).like(X)

    def sample(
        self, X: Any, *, steps: int | None = None, sweeps: int = 10, seed: int = 0
    ) -> Groups:
        """Draws from the model, as Groups.

        Causal: each group goes on for `steps` elements (10 unless given), items and values drawn in
        turn. Bidirectional: unobserved values and items of Groups with code -1 are filled in, first
        in order, then by `sweeps` of Gibbs sampling. The same seed gives the same draws.
        """
        inputs = self._inputs(X)
        check_whole("seed", seed, least=0)
        if self.direction == "causal":
            steps = 10 if steps is None else steps
            check_whole("steps", steps, least=0)
            fitted = self.members_, self.schema_
            return continue_groups(*fitted, inputs.groups, steps=steps, seed=seed)
        check_whole("sweeps", sweeps, least=0)
        if steps is not None:
            raise ExfamError(
                "`steps` must not be given for direction='bidirectional', which fills in what is "
                "missing. Fit with direction='causal' to go on with groups."
            )
        return fill_in(self.members_, inputs.groups, blank=inputs.blank, sweeps=sweeps, seed=seed)

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        first = self.members_[0]
        config = {
            "schema": self.schema_.to_config(),
            "items": first.item_part is not None,
            "values": first.value_part is not None,
            "support": self.support_,
            "ordered": self.ordered_,
        }
        return config, {}

    def _restore(self, config: Any, tensors: Any, vocabulary: dict[str, np.ndarray]) -> None:
        self.schema_ = Schema.from_config(config["schema"])
        self.support_, self.vocabulary_ = config["support"], vocabulary
        self.ordered_ = config.get("ordered", False)

    def _restored_member(self, config: Any) -> TwoPartModel:
        generator = torch.Generator().manual_seed(0)
        return self._build(generator, items=config["items"], values=config["values"])

    def _begin_requests(self) -> None:
        """Once, before requests come, of which several may come at the same time."""
        self._requests = RequestCache()
        for member in self.members_:
            member.eval()

    @property
    def _vocabulary(self) -> IndexedVocabulary:
        """The labels with their indexes."""
        return requests_of(self).vocabulary(self.vocabulary_)

    @property
    def family_(self) -> Any:
        """The parameter `family` of the fit, or by column what "auto" meant."""
        given = self.parameters_.get("family", self.family)
        if not isinstance(given, str) or given != "auto":
            return given
        families = self.schema_.families.items()
        return {name: own.family if isinstance(own, Scaled) else own for name, own in families}

    @property
    def _has_items(self) -> bool:
        return self.members_[0].item_part is not None

    @property
    def _has_positions(self) -> bool:
        """Whether predictions depend on where an element stands among the others."""
        return False

    def _columns(self) -> FrameColumns | None:
        given = {field.name: getattr(self, field.name) for field in fields(FrameColumns)}
        return None if self.group is None else FrameColumns(**given)

    def _read(
        self,
        X: Any,
        *,
        vocabulary: Mapping[str, np.ndarray] | None = None,
        unknown: str | None = None,
    ) -> Inputs:
        """What the user passed as groups, coded by a vocabulary if there is one."""
        return read_group_inputs(
            X,
            self._columns(),
            vocabulary=vocabulary,
            unknown="error" if vocabulary is None else unknown or self.unknown,
            ordered=str(self.order) == ROWS,
            in_order=self.order is not None or self.direction == "causal",
            dialect=self.dialect,
        )

    def _check_order(self, groups: Groups) -> None:
        """Raise ExfamError for sets where the model needs elements in order."""
        check_order(groups, direction=self.direction)

    def _inputs(self, X: Any, *, unknown: str | None = None) -> Inputs:
        self._check_fitted()
        inputs = self._read(X, vocabulary=self._vocabulary, unknown=unknown)
        # Models of before 0.2 took the order of rows where there was no other.
        if self.ordered_:
            self._check_order(inputs.groups)
        if self.support_ == "hard":
            check_no_repeats(inputs.groups)
        self.schema_.check(inputs.groups)
        return inputs

    def _of_values(
        self,
        inputs: Inputs,
        statistic: Callable[[Mixture], torch.Tensor],
        columns: Sequence[str] | None = None,
    ) -> Any:
        """A statistic of each value column's predictive distribution, in the user's order."""
        groups, out = inputs.groups, {}
        # A copy, since the column may be a file that cannot be written.
        item = None if groups.item is None else torch.from_numpy(groups.item.astype(np.int64))
        for column, eta in value_parameters(self.members_, groups).items():
            if columns is not None and column not in columns:
                continue
            rows = torch.isfinite(eta[0]).all(-1)
            family = self.members_[0].families[column]
            own = None if item is None else item[rows]
            mixture = Mixture(family, eta[:, rows].double(), own)
            numbers = statistic(mixture).double().numpy()
            flat = np.full((groups.n_rows, *numbers.shape[1:]), np.nan)
            flat[rows.numpy()] = numbers
            out[column] = inputs.spread(flat)
        return next(iter(out.values())) if len(out) == 1 else out
