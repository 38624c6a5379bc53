"""Errors: what of the data was badly predicted, where, by which model, and whether it is sure."""

import pkgutil
import threading
from contextlib import suppress
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from exfam.checks import ExfamError, check_choice
from exfam.estimator.registry import REGISTRY
from exfam.explorer.errors.scored import Scored
from exfam.explorer.errors.terms import ORDERS, Ranked, Slicing, mean_nats, ranked, sliced
from exfam.explorer.questions import Question, number_or_none, text_of, whole_of
from exfam.explorer.views import Answer

_PAGE, _SLICES = 20, 12
_OF = ("units", "parts")
_SLICE_ORDERS = (*ORDERS[:2], "difference", "n", "label")
# What a model reads, by the registry -> how its data are scored.
SCORED = {
    "fields": "fields:ScoredMaps",
    "groups": "groups:ScoredGroups",
    "tables": "rows:ScoredRows",
}


class ErrorsView:
    """How badly a model predicts the parts of data, beside a second model and in other data.

    `against`: a second model of the same kind of data; `compare`: other data of the model
    Raises ExfamError for a second model of another kind.
    """

    name, slow = "errors", ("score", "shift")

    def __init__(self, model: Any, data: Any, *, against: Any = None, compare: Any = None) -> None:
        self.model, self._data, self.against = model, data, against
        reads = REGISTRY[model.kind].reads
        if against is not None and _reads(against) != reads:
            raise ExfamError(
                f"`against` must be a fitted model of {reads}, like `model`, got "
                f"{type(against).__name__}."
            )
        self._kind: Any = pkgutil.resolve_name(f"exfam.explorer.errors.{SCORED[reads]}")
        self._after: Scored | None = None if compare is None else self._kind(model, compare)
        self._held: Scored | None = None
        self._lock, self._scoring, self._calibrating = (threading.Lock() for _ in range(3))
        self.questions = {
            "errors": self.errors, "score": self.score, "slices": self.slices,
            "calibration": self.calibration, "shift": self.shift, "shift_bars": self.shift_bars,
        }  # fmt: skip

    @staticmethod
    def shows(model: Any, data: Any) -> bool:
        """Whether there are data to be wrong about, and a way to score them."""
        return data is not None and _reads(model) in SCORED and getattr(model, "_has_items", True)

    def start(self) -> Answer:
        """What the lists are of. Nothing is scored yet."""
        return {
            "units": self._kind.units,
            "parts": self._kind.parts,
            "model": type(self.model).__name__,
            "against": None if self.against is None else type(self.against).__name__,
            "compares": self._after is not None,
        }

    def score(self, question: Question) -> Answer:
        """Scores as many as are worth the time; until then answers are of a few, and `partial`."""
        if self._scored().is_partial:
            with self._scoring:
                if self._scored().is_partial:
                    held = self._fresh(first=False)
                    with self._lock:
                        self._held = held
                    # What the page asks next, which may take a second.
                    with suppress(ExfamError):
                        self.calibration({})
        return {"n_scored": self._scored().n_scored, "partial": False}

    def errors(self, question: Question) -> Answer:
        """Units or parts (`of`) in an `order`, the worst first, a page at a time from `first`.

        `slicing`, `slice`: only terms of one slice. Each has its least probable term, with the
        fields of the address at which the first view shows that given all else.
        """
        data, chosen = self._chosen(question)
        of = text_of(question, "of", default="units")
        order = text_of(question, "order", default="total")
        check_choice("of", of, _OF)
        check_choice("order", order, ORDERS)
        terms = data.terms
        by_unit = of == "units"
        key = terms.unit if by_unit else terms.part
        found = ranked(terms, key, order=order, chosen=chosen, other=data.other)
        first = whole_of(question, "first", low=0, high=len(terms), default=0)
        rows = [
            self._row(data, found, k, by_unit=by_unit)
            for k in range(first, min(first + _PAGE, len(found.key)))
        ]
        all_of = mean_nats(
            terms.nats[chosen], terms.unit[chosen],
            None if data.other is None else data.other[chosen],
        )  # fmt: skip
        facts = {"n_rows": len(found.key), "n_all": data.n_all, "n_scored": data.n_scored}
        facts["partial"] = data.is_partial
        return {"rows": rows, "first": first, "page": _PAGE, "all": all_of, **facts}

    def slices(self, question: Question) -> Answer:
        """Mean log-probability by slice of a `slicing`, with its interval, a page at a time."""
        data = self._scored()
        name = self._slicing(data, question)
        slicing, terms = data.slicings[name], data.terms
        order = text_of(question, "order", default="mean")
        check_choice("order", order, _SLICE_ORDERS)
        codes = sliced(terms, slicing, order=order, other=data.other)
        first = whole_of(question, "first", low=0, high=len(slicing.labels), default=0)
        rows = []
        for code in codes[first : first + _SLICES]:
            own = np.flatnonzero(slicing.code == code)
            other = None if data.other is None else data.other[own]
            answer = mean_nats(terms.nats[own], terms.unit[own], other)
            rows.append({"slice": code, "name": slicing.labels[code], **answer})
        facts = {"slicing": name, "slicings": list(data.slicings), "n_rows": len(codes)}
        facts["partial"] = data.is_partial
        return {"rows": rows, "first": first, "page": _SLICES, **facts}

    def calibration(self, question: Question) -> Answer:
        """Whether the distributions of a `column` come true, of one slice or of all terms.

        `chosen`: whether the slice was made by what is predicted, where they cannot
        """
        data, chosen = self._chosen(question)
        column = text_of(question, "column", default=data.columns[0])
        check_choice("column", column, data.columns)
        if data.parts == "columns":
            chosen &= data.terms.part == data.columns.index(column)
        if not chosen.any():
            raise ExfamError(f"`slice` must hold values of {column!r} to be calibrated, got none.")
        # Not the lock of the data: other questions are answered meanwhile.
        with self._calibrating:
            answer = data.calibration(column, np.flatnonzero(chosen))
        outcome = "slice" in question and data.slicings[self._slicing(data, question)].outcome
        facts = {"column": column, "columns": list(data.columns), "chosen": outcome == column}
        facts["partial"] = data.is_partial
        return facts | answer

    def shift(self, question: Question) -> Answer:
        """What has moved between the data and those that are compared with them."""
        data, after = self._both()
        moved = data.shift(after)
        for part in moved["parts"]:
            part.setdefault("name", data.name_of_part(part["part"]) if "part" in part else "")
        facts = {"has_bars": False, "n": [data.n_scored, after.n_scored]}
        facts |= {"of": [data.n_all, after.n_all], "partial": data.is_partial}
        return facts | moved

    def shift_bars(self, question: Question) -> Answer:
        """The distribution of one `part` in both."""
        data, after = self._both()
        return data.bars(after, text_of(question, "part"))

    def _row(self, data: Scored, found: Ranked, k: int, *, by_unit: bool) -> Answer:
        key = int(found.key[k])
        term = int(found.least[k])
        part, unit = int(data.terms.part[term]), int(data.terms.unit[term])
        return {
            "name": data.name_of_unit(key) if by_unit else data.name_of_part(key),
            "n": int(found.n[k]),
            "total": number_or_none(found.total[k]),
            "mean": number_or_none(found.total[k] / found.n[k]),
            "difference": None if found.difference is None else number_or_none(found.difference[k]),
            "least": {
                "nats": number_or_none(data.terms.nats[term]),
                "part": data.name_of_part(part),
                "unit": data.name_of_unit(unit),
                "value": data.value_of(term),
                "address": dict(data.address(term)),
            },
        }

    def _scored(self) -> Scored:
        """The data with their scores, computed when they are first needed: of a few at first."""
        with self._lock:
            if self._held is None:
                self._held = self._fresh(first=True)
            return self._held

    def _fresh(self, *, first: bool) -> Scored:
        held: Scored = self._kind(self.model, self._data, against=self.against, first=first)
        if not len(held.terms):
            raise ExfamError("`data` must hold something to predict, got nothing.")
        # Now, while no other question can begin the same.
        _ = held.other, held.slicings, held.terms.by_nats
        return held

    def _both(self) -> tuple[Scored, Scored]:
        if self._after is None:
            raise ExfamError("`compare` must be given to see what has moved, got nothing.")
        return self._scored(), self._after

    def _slicing(self, data: Scored, question: Question) -> str:
        name = text_of(question, "slicing", default=next(iter(data.slicings)))
        check_choice("slicing", name, list(data.slicings))
        return name

    def _chosen(self, question: Question) -> tuple[Scored, Bool[np.ndarray, "terms"]]:
        """The data, and which of their terms are in the slice of the question."""
        data = self._scored()
        if "slice" not in question:
            return data, np.ones(len(data.terms), dtype=bool)
        slicing: Slicing = data.slicings[self._slicing(data, question)]
        code = whole_of(question, "slice", low=0, high=len(slicing.labels) - 1)
        chosen: Int64[np.ndarray, "terms"] | Any = slicing.code == code
        if not chosen.any():
            raise ExfamError(f"`slice` must hold something, got {slicing.labels[code]!r}, empty.")
        return data, chosen


def _reads(model: Any) -> str:
    kind = getattr(model, "kind", None)
    return str(REGISTRY[kind].reads) if kind in REGISTRY else ""
