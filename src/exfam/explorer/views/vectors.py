"""Words and items: a map of their vectors, what is near, and analogies as arrows."""

import math
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from exfam.checks import ExfamError, check_choice, shown
from exfam.estimator.gain import gain_sentences
from exfam.explorer.attributes import attributes_of
from exfam.explorer.entries import Scored, entries_of, has_entries
from exfam.explorer.kept import NameSearch
from exfam.explorer.planes import Plane, main_axes_plane, mirror_plane
from exfam.explorer.questions import Question, codes_of, number_or_none, text_of, whole_of
from exfam.explorer.views import Answer

# Dots that are drawn one by one; of the others, how many are in each cell.
_DOTS, _CELLS = 400, 40
_FOUND, _NEAR, _ANSWERS, _MARGIN = 20, 12, 5, 0.05
_LAYERS = ("center", "context", "both")


class VectorsView:
    """What a model says of words or items by their vectors.

    `data`: for models of words a table of attributes, a row or more for each word
    """

    name, slow = "vectors", ()

    def __init__(self, model: Any, data: Any = None) -> None:
        self.model, self.entries = model, entries_of(model)
        names, order = self.entries.names, self.entries.order
        self._rank = np.empty(len(names), dtype=np.int64)
        self._rank[order] = np.arange(len(names))
        self._names = NameSearch(names, self._rank)
        self._attributes: dict[str, Any] = {}
        self._planes: dict[str, Plane] = {}
        self._computing = threading.Lock()
        if data is not None and self.entries.model is None:
            self.color(data)
        self.questions = {
            "window": self.window, "find": self.find, "near": self.near, "analogy": self.analogy,
        }  # fmt: skip

    @staticmethod
    def shows(model: Any, data: Any) -> bool:
        """Where there are vectors of words or items."""
        return has_entries(model)

    def color(self, attributes: Any) -> None:
        """Take a table by which dots are colored; see `attributes_of`."""
        self._attributes = attributes_of(attributes, self.entries.names)

    def start(self) -> Answer:
        """The model in words, the planes, and the most frequent words or items."""
        own, planes = self.entries, {name: self._plane(name) for name in self._makers}
        return {
            "title": type(self.model).__name__,
            "gain": " ".join(gain_sentences(self.model)) if own.model is not None else "",
            "noun": own.noun,
            "by": own.by,
            "n": len(own.names),
            "n_all": len(own.names) if own.model is None else len(self.model.vocabulary_["item"]),
            "planes": {name: _extent(plane) for name, plane in planes.items()},
            "has_context": own.contexts is not None,
            "is_tied": own.reflected is not None,
            "has_analogies": own.vectors is not None and len(own.names) > 3,
            "attributes": list(self._attributes),
            "items": self._named(own.order[:_FOUND]),
        }

    def find(self, question: Question) -> Answer:
        """`text` -> those whose names hold it, that begin with it first, then the most frequent.

        `codes` names some by their codes instead.
        """
        if "codes" in question:
            return {"items": self._named(codes_of(question, "codes", n=len(self.entries.names)))}
        if not (text := text_of(question, "text")).strip():
            return {"items": self._named(self.entries.order[:_FOUND])}
        found = self._names.codes(text)
        return {"items": self._named(found[:_FOUND]), "n_found": len(found)}

    def window(self, question: Question) -> Answer:
        """`low`, `high` of a part of the plane, all of it unless given -> what is in it.

        `plane`: its name; `layer`: "center", "context" or "both", whose dots count; `color`: an
        attribute; `also`: codes of dots that are drawn wherever they are. Dots of the most frequent
        are drawn, and of the others how many are in each of `cells` x `cells` cells.
        """
        plane, layer = self._chosen_plane(question), self._layer(question)
        low, high = _corners(question, plane)
        inside = np.zeros(len(self._rank), dtype=bool)
        for points in _points(plane, layer):
            # Column by column: reducing rows of two costs ten times as much.
            across, up = points.T
            inside |= (across >= low[0]) & (across <= high[0]) & (up >= low[1]) & (up <= high[1])
        order = self.entries.order
        first = order[inside[order]][:_DOTS]
        also = codes_of(question, "also", n=len(self._rank))
        drawn = np.concatenate([first, np.setdiff1d(also, first)]).astype(np.int64)
        n_inside = int(inside.sum())
        inside[drawn] = False
        rest = np.flatnonzero(inside)
        answer = {"low": low.tolist(), "high": high.tolist(), "n_inside": n_inside}
        return {
            **answer,
            "dots": self._dots(drawn, plane),
            "cells": _CELLS,
            "density": _density(_points(plane, layer)[0][rest], low, high) if len(rest) else [],
            **self._colors(question, drawn),
        }

    def near(self, question: Question) -> Answer:
        """`code` -> the nearest others, and whose context vectors are nearest to its own vector."""
        code, plane = self._code(question, "code"), self._chosen_plane(question)
        return {
            **self._dots(np.array([code]), plane)[0],
            "alike": self._scored(self.entries.alike(code, k=_NEAR), plane),
            "beside": self._scored(self.entries.beside(code, k=_NEAR), plane),
            "own_cosine": self.entries.own_cosine(code),
            "reflected_share": self._reflected_share(code),
            "attributes": {name: own.of(code) for name, own in self._attributes.items()},
        }

    def analogy(self, question: Question) -> Answer:
        """`a` is to `b` as `c` is to -> the best answers, and where all of them are."""
        a, b, c = (self._code(question, name) for name in "abc")
        plane = self._chosen_plane(question)
        answers = self._scored(self.entries.analogy(a, b, c, k=_ANSWERS), plane)
        return {"given": self._dots(np.array([a, b, c]), plane), "answers": answers}

    @property
    def _makers(self) -> dict[str, Callable[[], Plane]]:
        own, reflected = self.entries, self.entries.reflected
        context = None if own.contexts is None else own.contexts.center
        makers: dict[str, Callable[[], Plane]] = {}
        makers["main"] = partial(main_axes_plane, own.center, context)
        if reflected is not None:
            makers["mirror"] = partial(mirror_plane, own.center, reflected)
        return makers

    def _plane(self, name: str) -> Plane:
        with self._computing:
            if name not in self._planes:
                self._planes[name] = self._makers[name]()
            return self._planes[name]

    def _chosen_plane(self, question: Question) -> Plane:
        name = text_of(question, "plane", default="main")
        check_choice("plane", name, self._makers)
        return self._plane(name)

    def _layer(self, question: Question) -> str:
        layer = text_of(question, "layer", default="center")
        there = _LAYERS if self.entries.contexts is not None else _LAYERS[:1]
        check_choice("layer", layer, there)
        return layer

    def _code(self, question: Question, name: str) -> int:
        return whole_of(question, name, low=0, high=len(self.entries.names) - 1)

    def _named(self, codes: Any) -> list[dict[str, Any]]:
        return [{"code": int(code), "name": self.entries.names[code]} for code in codes]

    def _dots(self, codes: Int64[np.ndarray, "drawn"], plane: Plane) -> list[dict[str, Any]]:
        context = plane.context
        return [
            {
                **one,
                "at": plane.center[one["code"]].tolist(),
                "context_at": None if context is None else context[one["code"]].tolist(),
            }
            for one in self._named(codes)
        ]

    def _scored(self, scored: Scored, plane: Plane) -> list[dict[str, Any]]:
        dots = self._dots(np.array([code for code, _ in scored], dtype=np.int64), plane)
        scores = [number_or_none(score) for _, score in scored]
        return [{**dot, "similarity": score} for dot, score in zip(dots, scores, strict=True)]

    def _reflected_share(self, code: int) -> float | None:
        """Of the squared length of a vector, what lies in the half that is reflected."""
        if self.entries.reflected is None:
            return None
        squares = self.entries.center[code].astype(np.float64) ** 2
        total = float(squares.sum())
        return float(squares[self.entries.reflected].sum()) / total if total else None

    def _colors(self, question: Question, codes: Int64[np.ndarray, "drawn"]) -> Answer:
        name = text_of(question, "color", default="")
        if not name:
            return {}
        check_choice("color", name, self._attributes)
        own = self._attributes[name]
        answer: Answer = {"colors": [number_or_none(value) for value in own.value[codes]]}
        if own.labels is not None:
            return answer | {"labels": list(own.labels)}
        return answer | {"range": [float(np.nanmin(own.value)), float(np.nanmax(own.value))]}


def _points(plane: Plane, layer: str) -> list[Float64[np.ndarray, "entries 2"]]:
    layers: dict[str, list[Any]] = {"center": [plane.center], "context": [plane.context]}
    chosen = layers.get(layer, [plane.center, plane.context])
    return [points for points in chosen if points is not None]


def _extent(plane: Plane) -> Answer:
    """Corners around all dots, and the share of the variance that lies in the plane."""
    every = np.concatenate(_points(plane, "both"))
    low, high = every.min(0), every.max(0)
    margin = _MARGIN * np.where(high > low, high - low, 1.0)
    low, high = low - margin, high + margin
    return {"low": low.tolist(), "high": high.tolist(), "share": plane.share}


def _corners(
    question: Question, plane: Plane
) -> tuple[Float64[np.ndarray, "2"], Float64[np.ndarray, "2"]]:
    given: Question = question if "low" in question or "high" in question else _extent(plane)
    return _pair(given, "low"), _pair(given, "high")


def _pair(question: Question, name: str) -> Float64[np.ndarray, "2"]:
    given = question.get(name)
    pair: list[Any] = given if isinstance(given, list) and len(given) == 2 else [None]
    if not all(type(number) in (int, float) and math.isfinite(number) for number in pair):
        raise ExfamError(f"`{name}` must be two numbers, got {shown(given)}.")
    return np.array(pair, dtype=np.float64)


def _density(
    points: Float64[np.ndarray, "rest 2"], low: np.ndarray, high: np.ndarray
) -> list[list[int]]:
    """Cells that hold dots, by their numbers along both axes, and how many."""
    share = (points - low) / np.where(high > low, high - low, 1.0)
    cell = np.clip((share * _CELLS).astype(np.int64), 0, _CELLS - 1)
    flat, count = np.unique(cell[:, 0] * _CELLS + cell[:, 1], return_counts=True)
    return np.stack([flat // _CELLS, flat % _CELLS, count], 1).tolist()
