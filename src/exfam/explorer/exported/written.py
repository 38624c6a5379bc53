"""What a page asks of data that nobody changes: the questions whose answers are written into it."""

import json
from collections.abc import Iterator
from typing import Any

from exfam.explorer.errors.terms import ORDERS
from exfam.explorer.questions import Question

Asked = Iterator[tuple[str, Question]]
# Further items of a context that are written, and those of them that can be chosen.
_FURTHER, _CHOSEN = 40, 6


def can_be_written(view: Any) -> bool:
    """Whether all that a view asks of data that nobody changes is known beforehand."""
    return view.name in _QUESTIONS


def questions_of(view: Any) -> Asked:
    """Those of a view, as the page words them."""
    return _QUESTIONS[view.name](view)


def _of_rows(view: Any) -> Asked:
    if view.cells is None:
        yield from _of_row(view, {})
        return
    for index in range(len(view.cells)):
        yield "row", {"index": index}
        cells = view.row({"index": index})["cells"]
        yield from _of_row(view, {name: own for name, own in cells.items() if own is not None})


def _of_row(view: Any, cells: dict[str, Any]) -> Asked:
    for columns in view.start()["parts"]:
        yield "answer", {"cells": cells, "columns": columns}
    yield "joint", {"cells": cells}
    for column in view.start()["columns"]:
        if column["predicted"]:
            yield "why", {"cells": cells, "column": column["name"]}


def _of_items(view: Any) -> Asked:
    related, done = set(), set()
    for context, own in _contexts(view):
        if (key := json.dumps(context)) in done:
            continue
        done.add(key)
        further = {**context, "k": _FURTHER}
        yield "next", further
        first = [one["code"] for one in view.next(further)["items"][:_CHOSEN]]
        for code in dict.fromkeys([*first, *own]):
            yield "why", {**context, "item": code}
            there = code in context["items"]
            element = {"element": context["items"].index(code)} if there else {"item": code}
            yield "value", {**context, **element}
            related.add(code)
    for code in sorted(related):
        yield "related", {"item": code}


def _contexts(view: Any) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """Of each group all of it, and what each of its elements is given, with that element's item."""
    yield {"items": []}, []
    for index in range(len(view.groups)):
        group = view.group({"index": index})
        items = [one["code"] for one in group["items"]]
        values = group.get("values", [None] * len(items))
        n = len(items)
        yield _context(items, values), []
        for k in range(n):
            given = range(k) if view.model.direction == "causal" else [*range(k), *range(k + 1, n)]
            yield _context([items[j] for j in given], [values[j] for j in given]), [items[k]]


def _context(items: list[int], values: list[float | None]) -> dict[str, Any]:
    """As the page words it: values are left out where none is known."""
    typed = {"values": values} if any(value is not None for value in values) else {}
    return {"items": items, **typed}


def _of_stations(view: Any) -> Asked:
    for time in range(len(view.maps)):
        own = {"time": time, "changes": {}, "added": []}
        yield "map", own
        if view.start()["has_grid"]:
            yield "grid", own
        for element, station in enumerate(view.map(own)["stations"]):
            yield "why", {**own, "element": element}
            if station["site"] >= 0:
                yield "course", {"site": station["site"], "time": time}
    yield "plan", {}


def _of_errors(view: Any) -> Asked:
    view.score({})
    orders = ORDERS if view.against is not None else ORDERS[:3]
    for of in ("units", "parts"):
        for order in orders:
            own: dict[str, Any] = {"of": of, "order": order}
            yield from _pages(view.errors, "errors", own)
    yield "slices", {"order": "mean", "first": 0}
    for slicing in view.slices({})["slicings"]:
        for order in (*orders[:2], *orders[3:], "n", "label"):
            yield from _pages(view.slices, "slices", {"order": order, "slicing": slicing})
    yield "calibration", {}
    for column in view.calibration({})["columns"]:
        yield "calibration", {"column": column}
    yield from _of_shift(view)


def _of_shift(view: Any) -> Asked:
    if view.start()["compares"]:
        yield "shift", {}
        for part in view.shift({})["parts"]:
            yield "shift_bars", {"part": part["name"]}


def _pages(ask: Any, name: str, question: dict[str, Any]) -> Asked:
    answer = ask({**question, "first": 0})
    for first in range(0, max(1, answer["n_rows"]), answer["page"]):
        yield name, {**question, "first": first}


_QUESTIONS = {"errors": _of_errors, "items": _of_items, "row": _of_rows, "stations": _of_stations}
