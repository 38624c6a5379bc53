"""Baskets and histories: items clicked in and out, what comes next, and why."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from exfam.checks import ExfamError
from exfam.efa.blanks import append_blank
from exfam.efa.explaining import ExplainingEstimator
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.recommend import groups_of_items
from exfam.estimator.evaluate import item_probabilities
from exfam.estimator.gain import gain_sentences
from exfam.explorer.questions import Question, codes_of, number_or_none, text_of, whole_of
from exfam.explorer.views import Answer
from exfam.groups import Groups

_FOUND, _BARS, _CONTRIBUTIONS, _RAISING, _TRIED, _RELATED = 20, 12, 12, 3, 30, 8
# Contexts whose probabilities are kept: that before a click and some to go back to.
_KEPT, _MOST_NUMBERS = 32, 8_000_000


class ItemsView:
    """What a model of items says of a context that is put together by hand.

    Raises ExfamError for a model without items.
    """

    name = "items"

    def __init__(self, model: GroupEstimator, data: Any = None) -> None:
        self.model = model
        self.labels = model.vocabulary_.get("item", np.array([]))
        if not model._has_items:
            raise ExfamError("`model` must predict items to be explored, got one of values alone.")
        self.names = [str(label) for label in self.labels.tolist()]
        self._folded = np.array([name.casefold() for name in self.names], dtype=object)
        self.groups = None if data is None else model._inputs(data).groups
        self._kept: OrderedDict[tuple[int, ...], Float64[np.ndarray, "items"]] = OrderedDict()
        self._lock = threading.Lock()
        self.popularity = self._probabilities(())
        self.questions = {
            "search": self.search,
            "next": self.next,
            "why": self.why,
            "raise": self.raising,
            "related": self.related,
            "group": self.group,
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
            "repeats": self.model.support_ != "hard",
            "explains": self._explains,
            "gain": " ".join(gain_sentences(self.model)),
            "items": self._named(first.tolist()),
        }

    def search(self, question: Question) -> Answer:
        """`text` -> items whose names hold it, those that begin with it first, then by probability.

        `codes` names items by their codes instead.
        """
        if "codes" in question:
            return {"items": self._named(codes_of(question, "codes", n=len(self.names)))}
        wanted = text_of(question, "text").casefold().strip()
        if not wanted:
            return self.start()
        holds = np.array([wanted in name for name in self._folded], dtype=bool)
        found = np.flatnonzero(holds)
        begins = np.array([name.startswith(wanted) for name in self._folded[found]], dtype=bool)
        order = np.lexsort((-self.popularity[found], ~begins))[:_FOUND]
        return {"items": self._named(found[order].tolist()), "n_found": len(found)}

    def next(self, question: Question) -> Answer:
        """`items` -> the most probable further items, and what they were with the items `before`.

        `also`: items that are listed whatever their rank.
        """
        items, also = self._codes(question, "items"), self._codes(question, "also")
        now = self._probabilities(items)
        before = (
            self._probabilities(self._codes(question, "before")) if "before" in question else now
        )
        k = whole_of(question, "k", low=1, high=100, default=_BARS)
        best = [int(code) for code in _largest(now, k) if now[code] > 0]
        listed = [*best, *(code for code in also if code not in best)]
        return {
            "items": [
                {**self._one(c), "probability": float(now[c]), "before": float(before[c])}
                for c in listed
            ]
        }

    def why(self, question: Question) -> Answer:
        """`items`, `item` -> what each item of the context adds to it, and what attention adds."""
        items, item = self._codes(question, "items"), self._item(question)
        if not self._explains:
            raise ExfamError("`item` cannot be explained exactly: this model has no base of items.")
        assert isinstance(self.model, ExplainingEstimator)
        own = self.model.explain_item(self._groups([items]), item=self.labels[item])
        order = np.argsort(-np.abs(own.contribution), kind="stable")[:_CONTRIBUTIONS]
        lag = own.lag
        return {
            **self._one(item),
            **{
                name: number_or_none(getattr(own, name)[0])
                for name in ("score", "base", "correction", "corrected", "alone", "probability")
            },
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
        items, item = self._codes(question, "items"), self._item(question)
        with_it = self.model.complements(self.labels[item], k=_TRIED).items.tolist()
        tried = [c for c in self._code_of(with_it) if c not in items]
        now, *then = self._probabilities_of(item, [items, *((*items, c) for c in tried)])
        best = [k for k in np.argsort(-np.array(then), kind="stable") if then[k] > now][:_RAISING]
        raised = [{**self._one(tried[k]), "probability": then[k]} for k in best]
        return {"probability": now, "items": raised, "n_tried": len(tried)}

    def related(self, question: Question) -> Answer:
        """`item` -> what goes with it, in nats, and what can stand in its place."""
        item = self._item(question)
        answer: Answer = self._one(item)
        for kind in ("complements", "substitutes"):
            # As many as are tried: the model keeps what it is asked for.
            found = getattr(self.model, kind)(self.labels[item], k=_TRIED)
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
            return {"name": str(labels[k]), "items": self._named(own[own >= 0].tolist())}
        wanted = text_of(question, "text").casefold()
        found = [k for k, label in enumerate(labels.tolist()) if wanted in str(label).casefold()]
        return {"groups": [{"index": k, "name": str(labels[k])} for k in found[:_FOUND]]}

    @property
    def _explains(self) -> bool:
        base = getattr(self.model.members_[0].item_part, "base", None)
        return isinstance(self.model, ExplainingEstimator) and base is not None

    def _code_of(self, labels: Sequence[Any]) -> list[int]:
        codes = self.model._vocabulary.index("item").codes
        return [codes[label] for label in labels]

    def _codes(self, question: Question, name: str) -> tuple[int, ...]:
        return tuple(codes_of(question, name, n=len(self.labels)))

    def _item(self, question: Question) -> int:
        return whole_of(question, "item", low=0, high=len(self.labels) - 1)

    def _one(self, code: int) -> dict[str, Any]:
        return {"code": code, "name": self.names[code]}

    def _named(self, codes: Sequence[int]) -> list[dict[str, Any]]:
        return [self._one(code) for code in codes]

    def _probabilities(self, items: tuple[int, ...]) -> Float64[np.ndarray, "items"]:
        """Of every item as a further one; of sets in any order of their items."""
        key = items if self.model.direction == "causal" else tuple(sorted(items))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        probability = self._computed(self._groups([key]))
        with self._lock:
            self._kept[key] = probability
            while len(self._kept) > max(2, min(_KEPT, _MOST_NUMBERS // len(probability))):
                self._kept.popitem(last=False)
        return probability

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

    def _probabilities_of(self, item: int, contexts: Sequence[tuple[int, ...]]) -> list[float]:
        """Of one item as a further one of each context."""
        if isinstance(self.model, ExplainingEstimator) and self._explains:
            label = self.labels[item]
            return self.model.explain_item(self._groups(contexts), item=label).probability.tolist()
        return [float(self._probabilities(context)[item]) for context in contexts]

    def _groups(self, contexts: Sequence[Sequence[int]]) -> Groups:
        lengths = np.array([len(context) for context in contexts], dtype=np.int64)
        item = np.array([code for context in contexts for code in context], dtype=np.int64)
        return groups_of_items(self.model.schema_, item, lengths).with_(
            vocabulary={"item": self.labels},
            ordered=self.model.direction == "causal" or self.model._has_positions,
        )


def _largest(numbers: Float64[np.ndarray, "n"], k: int) -> np.ndarray:
    some = np.argpartition(-numbers, min(k, len(numbers) - 1))[:k]
    return some[np.argsort(-numbers[some], kind="stable")]
