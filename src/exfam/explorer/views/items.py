"""Baskets and histories: items clicked in and out, what comes next, and why."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64

from exfam.checks import ExfamError
from exfam.efa.blanks import append_blank
from exfam.efa.explaining import ExplainingEstimator
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.related import Relations, relations
from exfam.estimator.evaluate import item_probabilities, log_probs, value_parameters
from exfam.estimator.gain import gain_sentences
from exfam.explorer.contexts import Context, context_of, groups_of_contexts, value_column
from exfam.explorer.curves import bars_of, density_of
from exfam.explorer.kept import NameSearch, Recent
from exfam.explorer.questions import Question, codes_of, number_or_none, text_of, whole_of
from exfam.explorer.views import Answer
from exfam.families.mixtures import Mixture
from exfam.groups import TARGET, Groups
from exfam.scores.prediction import Prediction

_TERMS = "score", "base", "classes", "correction", "corrected", "alone", "probability"
_FOUND, _BARS, _CONTRIBUTIONS, _RAISING, _TRIED, _RELATED = 20, 12, 12, 3, 30, 8
_LABELS = 20
# Of large catalogs fewer items are looked at than the model itself looks at, so that the page waits
# for none of them.
_REACH = 100
# Items that a model of values alone looks through for the highest value.
_FREQUENT = 200
# Contexts whose probabilities are kept: that before a click and some to go back to.
_KEPT, _MOST_NUMBERS = 32, 8_000_000


class ItemsView:
    """What a model of items, or of values beside them, says of a context put together by hand.

    Raises ExfamError for a model of several columns of values alone.
    """

    name, slow = "items", ()

    def __init__(self, model: GroupEstimator, data: Any = None) -> None:
        self.model = model
        self.labels = model.vocabulary_.get("item", np.array([]))
        self.column = value_column(model)
        if not model._has_items and self.column is None:
            raise ExfamError(
                "`model` must predict items, or one column of values beside them, to be explored, "
                f"got {len(model.schema_.families)} columns of values alone."
            )
        self.names = [str(label) for label in self.labels.tolist()]
        self.groups = None if data is None else model._inputs(data).groups
        most = max(2, min(_KEPT, _MOST_NUMBERS // max(1, len(self.labels))))
        self._kept = Recent[Float64[np.ndarray, "items"]](most)
        self.popularity = self._popularity()
        self._names = NameSearch(self.names, -self.popularity)
        self.questions = {
            "search": self.search,
            "next": self.next,
            "why": self.why,
            "raise": self.raising,
            "related": self.related,
            "group": self.group,
            "value": self.value,
        }

    @staticmethod
    def shows(model: Any, data: Any) -> bool:
        """Always: this view says what it needs."""
        return True

    def start(self) -> Answer:
        """The model in words, and the most probable items without a context."""
        first = np.argsort(-self.popularity, kind="stable")[:_FOUND]
        return {
            "title": type(self.model).__name__,
            "n_items": len(self.labels),
            "n_groups": 0 if self.groups is None else len(self.groups),
            "ordered": self.model.direction == "causal",
            "is_sequence": self._is_sequence,
            "value": self._described_value(),
            "repeats": self.model.support_ != "hard",
            "explains": self._explains,
            "raises": self.model._has_items,
            "predicts_items": self.model._has_items,
            "gain": " ".join(gain_sentences(self.model)),
            "items": self._named(first.tolist()),
        }

    def search(self, question: Question) -> Answer:
        """`text` -> items whose names hold it, those that begin with it first, then by probability.

        `codes` names items by their codes instead.
        """
        if "codes" in question:
            return {"items": self._named(codes_of(question, "codes", n=len(self.names)))}
        if not (text := text_of(question, "text")).strip():
            return self.start()
        found = self._names.codes(text)
        return {"items": self._named(found[:_FOUND].tolist()), "n_found": len(found)}

    def next(self, question: Question) -> Answer:
        """`items` -> the most probable further items, and what they were with the items `before`.

        `values`, `before_values`: the value beside each, None where it is not known; a model of
        values says of each further item what value it would have. `also`: items that are listed
        whatever their rank. Of a model of values alone: those of the most frequent items that would
        have the highest values, and their centers `before`.
        """
        context = self._context(question)
        also = codes_of(question, "also", n=len(self.labels))
        if not self.model._has_items:
            return self._highest(question, context, also)
        now = self._probabilities(context)
        before = now
        if "before" in question:
            before = self._probabilities(self._context(question, "before"))
        k = whole_of(question, "k", low=1, high=100, default=_BARS)
        best = [int(code) for code in _largest(now, k) if now[code] > 0]
        listed = [*best, *(code for code in also if code not in best)]
        values = self._values(context, listed)
        return {
            "items": [
                {**self._one(c), "probability": float(now[c]), "before": float(before[c]), **value}
                for c, value in zip(listed, values, strict=True)
            ]
        }

    def _highest(self, question: Question, context: Context, also: Sequence[int]) -> Answer:
        frequent = np.argsort(-self.popularity, kind="stable")[:_FREQUENT].tolist()
        listed = list(dict.fromkeys([*(c for c in frequent if c not in context.items), *also]))
        before = self._context(question, "before") if "before" in question else context
        now, then = (self._values(own, listed) for own in (context, before))
        items = [
            {**self._one(c), "probability": None, **own, "before": earlier["value"]["center"]}
            for c, own, earlier in zip(listed, now, then, strict=True)
        ]
        items.sort(key=lambda one: -one["value"]["center"])
        k = whole_of(question, "k", low=1, high=100, default=_BARS)
        return {"items": [one for j, one in enumerate(items) if j < k or one["code"] in also]}

    def value(self, question: Question) -> Answer:
        """`items`, `values`, an `item` or an `element` of them -> the distribution of its value.

        Of an item as a further one; of an element given all others, or, causal, those before it.
        """
        context = self._context(question)
        if self.column is None:
            raise ExfamError("`item` must be of a model with one column of values to have a value.")
        typed = np.nan
        if "element" in question:
            k = whole_of(question, "element", low=0, high=len(context.items) - 1)
            typed = np.nan if context.values[k] is None else float(context.values[k] or 0.0)
        else:
            context, k = context.with_item(self._item(question)), len(context.items)
        own = self._prediction([context], [k])
        nats = None if np.isnan(typed) else number_or_none(own.log_prob(typed)[0])
        return {**self._one(context.items[k]), "nats": nats, **_drawn(own, typed)}

    def why(self, question: Question) -> Answer:
        """`items`, `item` -> what each item of the context adds to it, and what attention adds."""
        context, item = self._context(question), self._item(question)
        if not self._explains:
            raise ExfamError("`item` cannot be explained exactly: this model has no base of items.")
        assert isinstance(self.model, ExplainingEstimator)
        own = self.model.explain_item(self._groups([context]), item=self.labels[item])
        order = np.argsort(-np.abs(own.contribution), kind="stable")[:_CONTRIBUTIONS]
        lag = own.lag
        return {
            **self._one(item),
            **{name: number_or_none(getattr(own, name)[0]) for name in _TERMS},
            "share": number_or_none(own.share),
            "entries": [
                {
                    "name": str(own.context[entry]),
                    "lag": None if lag is None else int(lag[entry]),
                    "contribution": number_or_none(own.contribution[entry]),
                }
                for entry in order
            ],
            "n_entries": len(own.contribution),
        }

    def raising(self, question: Question) -> Answer:
        """`items`, `item` -> the items that make it likeliest when one of them is added.

        Tried are those that go with it, one by one, exactly.
        """
        context, item = self._context(question), self._item(question)
        with_it = self._relations(item, alike=False).items.tolist()
        tried = [c for c in self._code_of(with_it) if c not in context.items]
        contexts = [context, *(context.with_item(c) for c in tried)]
        now, *then = self._probabilities_of(item, contexts)
        best = [k for k in np.argsort(-np.array(then), kind="stable") if then[k] > now][:_RAISING]
        raised = [{**self._one(tried[k]), "probability": then[k]} for k in best]
        return {"probability": now, "items": raised, "n_tried": len(tried)}

    def related(self, question: Question) -> Answer:
        """`item` -> what goes with it, in nats, and what can stand in its place."""
        item = self._item(question)
        answer: Answer = self._one(item)
        for kind in ("complements", "substitutes"):
            found = self._relations(item, alike=kind == "substitutes")
            named = self._named(self._code_of(found.items.tolist()))
            answer[kind] = [
                {**one, "strength": number_or_none(strength)}
                for one, strength in zip(named, found.strength, strict=True)
                if strength > 0
            ][:_RELATED]
        return answer

    def group(self, question: Question) -> Answer:
        """`text` -> groups of the data by name; `index` -> the items of one."""
        if self.groups is None:
            raise ExfamError("`index` must be of a group of data, got none: no data were given.")
        names = self.groups.group_names
        labels = np.arange(len(self.groups)) if names is None else names
        if "index" in question:
            k = whole_of(question, "index", low=0, high=len(self.groups) - 1)
            assert self.groups.item is not None
            own = self.groups.item[self.groups.start[k] : self.groups.stop[k]]
            known = own >= 0
            answer = {"name": str(labels[k]), "items": self._named(own[known].tolist())}
            return answer | self._values_of_group(k, known)
        wanted = text_of(question, "text").casefold()
        found = [k for k, label in enumerate(labels.tolist()) if wanted in str(label).casefold()]
        return {"groups": [{"index": k, "name": str(labels[k])} for k in found[:_FOUND]]}

    def _relations(self, item: int, *, alike: bool) -> Relations:
        return relations(self.model, self.labels[item], k=_TRIED, alike=alike, n_candidates=_REACH)

    @property
    def _explains(self) -> bool:
        base = getattr(self.model.members_[0].item_part, "base", None)
        return isinstance(self.model, ExplainingEstimator) and base is not None

    def _code_of(self, labels: Sequence[Any]) -> list[int]:
        codes = self.model._vocabulary.index("item").codes
        return [codes[label] for label in labels]

    def _values_of_group(self, k: int, known: Bool[np.ndarray, "own"]) -> Answer:
        """The values beside the known items of a group of the data."""
        assert self.groups is not None
        if self.column is None or self.column not in self.groups.values:
            return {}
        rows = slice(int(self.groups.start[k]), int(self.groups.stop[k]))
        value = self.groups.values[self.column][rows].astype(np.float64)
        value = np.where(self.groups.has_value(self.column, rows), value, np.nan)
        return {"values": [number_or_none(number) for number in value[known]]}

    @property
    def _is_sequence(self) -> bool:
        return self.model.direction == "causal" or self.model._has_positions

    def _context(self, question: Question, name: str = "items") -> Context:
        return context_of(question, self.model, name=name)

    def _described_value(self) -> Answer | None:
        """The column beside items, and the values that it may have, if these are a few."""
        if self.column is None:
            return None
        labels = [float(label) for label in self.model.schema_.families[self.column].categories]
        return {"column": self.column, "labels": labels if len(labels) <= _LABELS else []}

    def _values(self, context: Context, listed: Sequence[int]) -> list[Answer]:
        """Of each item as a further one: the center and 90 % interval of its value."""
        if self.column is None or not listed:
            return [{}] * len(listed)
        own = self._prediction([context.with_item(c) for c in listed], [-1] * len(listed))
        numbers = np.stack([own.center, *own.interval()], -1)
        names = ("center", "low", "high")
        return [
            {"value": dict(zip(names, map(number_or_none, row), strict=True))} for row in numbers
        ]

    def _prediction(self, contexts: Sequence[Context], elements: Sequence[int]) -> Prediction:
        """The distribution of the value of one element of each context, -1 for the last."""
        assert self.column is not None
        groups = self._groups(contexts)
        rows = np.where(np.array(elements) < 0, groups.stop - 1, groups.start + np.array(elements))
        eta = value_parameters(self.model.members_, groups)[self.column][:, rows].double()
        assert groups.item is not None
        family = self.model.members_[0].families[self.column]
        mixture = Mixture(family, eta, torch.from_numpy(groups.item[rows].astype(np.int64)))
        return Prediction(mixture, np.arange(len(rows)), len(rows))

    def _item(self, question: Question) -> int:
        return whole_of(question, "item", low=0, high=len(self.labels) - 1)

    def _one(self, code: int) -> dict[str, Any]:
        return {"code": code, "name": self.names[code]}

    def _named(self, codes: Sequence[int]) -> list[dict[str, Any]]:
        return [self._one(code) for code in codes]

    def _probabilities(self, context: Context) -> Float64[np.ndarray, "items"]:
        """Of every item as a further one; of sets in any order of their items."""
        key = context if self._is_sequence else context.without_order()
        return self._kept.of(key, lambda: self._computed(self._groups([key])))

    def _popularity(self) -> Float64[np.ndarray, "items"]:
        """Of each item: its probability without a context, or how often the data have it."""
        if self.model._has_items:
            return self._probabilities(Context())
        item = np.zeros(0, np.int64) if self.groups is None else self.groups.item
        assert item is not None
        return np.bincount(item[item >= 0], minlength=len(self.labels)).astype(np.float64)

    def _computed(self, group: Groups) -> Float64[np.ndarray, "items"]:
        if self.model.direction == "causal" or not self.model._has_positions:
            blank = append_blank(group, self.model.schema_)
            ((_, probability),) = item_probabilities(self.model.members_, blank)
            return probability[0]
        # Means over the gaps that the further item may be in.
        found = self.model.recommend(group, k=len(self.labels))
        probability = np.zeros(len(self.labels))
        probability[self._code_of(found.items[0].tolist())] = found.probabilities[0]
        return probability

    def _probabilities_of(self, item: int, contexts: Sequence[Context]) -> list[float]:
        """Of one item as a further one of each context."""
        has_it = self.model.support_ == "hard" and any(item in own.items for own in contexts)
        if self._explains and not has_it:
            blank = append_blank(self._groups(contexts), self.model.schema_)
            assert blank.item is not None and blank.role is not None
            filled = blank.with_(item=np.where(blank.role == TARGET, item, blank.item))
            nats = log_probs(self.model.members_, filled)["item"][filled.stop - 1]
            return np.exp(nats).tolist()
        return [float(self._probabilities(context)[item]) for context in contexts]

    def _groups(self, contexts: Sequence[Context]) -> Groups:
        return groups_of_contexts(self.model, contexts)


def _drawn(own: Prediction, typed: float) -> Answer:
    """Of a distribution of one row: a curve, or bars where it has a few values."""
    family: Any = own.mixture.family
    if not family.categories:
        middle = own.mixture.quantile(0.5)
        is_count = bool(own.mixture.has_jumps(middle).all())
        return density_of(own, np.array([typed]), is_count=is_count)
    labels = [float(label) for label in family.categories]
    code = labels.index(typed) if typed in labels else None
    probability = own.mixture.probs()[0].double().numpy()
    low, high = own.interval()
    return {
        "center": number_or_none(own.center[0]),
        "low": number_or_none(low[0]),
        "high": number_or_none(high[0]),
        **bars_of(probability, labels, in_order=True, own=code),
    }


def _largest(numbers: Float64[np.ndarray, "n"], k: int) -> np.ndarray:
    some = np.argpartition(-numbers, min(k, len(numbers) - 1))[:k]
    return some[np.argsort(-numbers[some], kind="stable")]
