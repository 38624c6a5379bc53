"""Models that benchmarks/explorer.py explores, and what a page asks of each after a click."""

import json
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from exfam import EFA, FieldGaussian, MaskedLanguageModel, MaskedTable, WordVectors
from exfam.groups import Groups
from exfam.simulators import simulate_field

N_ITEMS, N_COLUMNS, N_STATIONS = 100_000, 200, 1_000
N_HISTORY, DIM = 5_000, 100
Questions = dict[str, Any]


class Asking:
    """A connection that stays open, as a browser's does."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.connection = HTTPConnection(str(parts.hostname), parts.port)
        self.path = parts.path

    def __call__(self, name: str, question: Any, *, indent: int | None = None) -> Any:
        """An `indent` makes another text of the same question, whose answer is not kept."""
        headers = {"Content-Type": "application/json"}
        text = json.dumps(question, indent=indent)
        self.connection.request("POST", f"{self.path}ask/{name}", text, headers)
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        assert response.status == 200, answer
        return answer


def items() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    lengths = random.integers(3, 12, 4_000)
    stop = np.cumsum(lengths)
    item = (N_ITEMS * random.random(stop[-1]) ** 2).astype(np.int64)
    labels = np.array([f"item {k:06}" for k in range(N_ITEMS)], dtype=object)
    groups = Groups(start=stop - lengths, stop=stop, item=item, vocabulary={"item": labels})
    model = EFA(attention="none", support="none", progress=False, validation_fraction=0.05)
    return model.fit(groups), groups


def rows() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    hidden = random.normal(size=(400, 6))
    numbers = hidden @ random.normal(size=(6, N_COLUMNS)) + random.normal(size=(400, N_COLUMNS))
    frame = pd.DataFrame(numbers, columns=[f"column {k}" for k in range(N_COLUMNS)])
    # Its default base takes many minutes for so many columns.
    return MaskedTable(base="none", max_epochs=1, progress=False).fit(frame), frame


def stations() -> tuple[Any, Any]:
    field = simulate_field(N_STATIONS, 40, season=0.0, seed=0)
    frame = field.frame.to_pandas()
    columns = {"time": "time", "site": "site", "value": "value"}
    model = FieldGaussian(**columns, coordinates=["latitude", "longitude"]).fit(frame)
    return model, frame


def words() -> tuple[Any, Any]:
    names = tuple(f"word {k:06}" for k in range(N_ITEMS))
    center = np.random.default_rng(0).normal(size=(N_ITEMS, DIM)).astype(np.float32)
    signs = np.where(np.arange(DIM) < DIM // 2, 1, -1).astype(np.int8)
    kinds = pd.DataFrame({"word": names, "kind": [f"kind {k % 6}" for k in range(N_ITEMS)]})
    return WordVectors(names, center, None, signs), kinds


def histories() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    user = np.repeat(np.arange(800), 12)
    item = (N_HISTORY * random.random(len(user)) ** 2).astype(np.int64)
    item[:N_HISTORY] = random.permutation(N_HISTORY)
    frame = pd.DataFrame({"user": user, "item": item, "stars": random.normal(size=len(user))})
    columns = {"group": "user", "item": "item", "value": "stars"}
    network = {"base": "none", "attention": "softmax", "max_epochs": 1, "n_layers": 2}
    model = EFA(**columns, order="rows", direction="causal", progress=False, **network)
    return model.fit(frame), None


def sentences() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    text = [" ".join(f"w{k}" for k in random.integers(0, 300, 12)) for _ in range(400)]
    model = MaskedLanguageModel(subwords="word", max_epochs=1, length=32, progress=False)
    return model.fit(text), None


def item_questions(_: Asking, k: int) -> Questions:
    random = np.random.default_rng(k)
    context = random.integers(0, N_ITEMS, 6).tolist()
    item = int(random.integers(N_ITEMS))
    return {
        "items": {
            "search": {"text": f"{k:04}"},
            "next": {"items": context, "before": context[:-1], "also": [item]},
            "why": {"items": context, "item": item},
            "raise": {"items": context, "item": item},
            "related": {"item": item},
        },
        **word_questions(_, k),
        **error_questions(k),
    }


def history_questions(_: Asking, k: int) -> Questions:
    random = np.random.default_rng(k)
    typed = {
        "items": random.integers(0, N_HISTORY, 20).tolist(),
        "values": random.normal(size=20).tolist(),
    }
    head = {"layer": 1 + k % 2, "head": 1}
    value = {**typed, "item": k % N_HISTORY}
    return {"items": {"next": typed, "value": value}, "attention": {"attention": {**typed, **head}}}


def sentence_questions(_: Asking, k: int) -> Questions:
    words = np.random.default_rng(k).integers(0, 300, 20)
    text = " ".join(f"w{word}" for word in words)
    return {"attention": {"attention": {"text": text, "layer": 1 + k % 4, "head": 1}}}


def row_questions(ask: Asking, k: int) -> Questions:
    cells = ask("row", {"index": k % 400})["cells"]
    name = f"column {k % N_COLUMNS}"
    cells = {**cells, name: k / 1000}
    first = [f"column {j}" for j in range(40)]
    return {
        "row": {
            "row": {"index": k % 400},
            "answer": {"cells": cells, "columns": first},
            "why": {"cells": cells, "column": f"column {(k + 1) % N_COLUMNS}"},
            "joint": {"cells": cells},
        },
        **error_questions(k),
        "attention": {"attention": {"cells": cells, "layer": 1, "head": 1}},
    }


def station_questions(_: Asking, k: int) -> Questions:
    changed = {"time": k % 40, "changes": {str(k % N_STATIONS): None}}
    return {
        "stations": {
            "map": changed,
            "grid": changed,
            "why": {**changed, "element": (k + 1) % N_STATIONS},
            "course": {"site": k % N_STATIONS, "time": k % 40},
        },
        **error_questions(k),
    }


def word_questions(_: Asking, k: int) -> Questions:
    random = np.random.default_rng(k)
    low, high = np.sort(random.uniform(-0.5, 0.5, (2, 2)), 0).tolist()
    # Of items the most frequent have vectors.
    a, b, c = random.choice(N_HISTORY // 5, 3, replace=False).tolist()
    return {
        "vectors": {
            "find": {"text": f"{k:04}"},
            "window": {"low": low, "high": high},
            "near": {"code": a},
            "analogy": {"a": a, "b": b, "c": c},
        }
    }


def error_questions(k: int) -> Questions:
    kind = {"of": ("units", "parts")[k % 2], "order": ("total", "mean", "least")[k % 3]}
    return {
        "errors": {
            "errors": {**kind, "first": k % 8},
            "slices": {"order": ("mean", "n", "label")[k % 3]},
            "calibration": {},
        }
    }


PAGES: dict[str, tuple[Callable[[], Any], Callable[[Asking, int], Questions]]] = {
    "items": (items, item_questions),
    "row": (rows, row_questions),
    "stations": (stations, station_questions),
    "words": (words, word_questions),
    "histories": (histories, history_questions),
    "sentences": (sentences, sentence_questions),
}
