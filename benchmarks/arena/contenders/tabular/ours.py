"""exfam's masked tables: their defaults, those without a network, and attention alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.arena.kind import Contender, Fitted
from benchmarks.arena.tabular.data import Shown, TableData
from benchmarks.arena.tabular.heads import Labels
from jaxtyping import Float

from exfam import MaskedTableClassifier, MaskedTableRegressor


class _Numbers:
    """The distribution of a fitted regressor for these rows."""

    def __init__(self, model: MaskedTableRegressor, given: Shown) -> None:
        self.model, self.cells = model, given.cells

    def log_prob(self, response: Float[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
        return self.model.log_scores(self.cells, response)

    def center(self) -> Float[np.ndarray, "rows"]:
        return self.model.predict(self.cells)


def default(**options: Any) -> Callable[[TableData, int], Fitted]:
    """A fit of the classifier to labels, of the regressor to numbers."""

    def fit(data: TableData, seed: int) -> Fitted:
        own = {"seed": seed, "progress": False, **options}
        if data.labels is None:
            regressor = MaskedTableRegressor(**own).fit(data.train.cells, data.train.response)
            return Fitted(lambda given: _Numbers(regressor, given), settings=_settings(regressor))
        labels = data.labels
        model = MaskedTableClassifier(**own).fit(data.train.cells, labels[data.train.response])
        order = [model.classes_.tolist().index(label) for label in labels.tolist()]
        # What float32 rounds to 0 is not impossible.
        least = np.finfo(np.float32).tiny
        return Fitted(
            lambda given: Labels(np.maximum(model.predict_proba(given.cells)[:, order], least)),
            settings=_settings(model),
        )

    return fit


def _without_order(data: TableData) -> str | None:
    return None if data.in_order else "its rows are in no order of time"


def _settings(model: Any) -> dict[str, Any]:
    return {"parameters": model.get_params(deep=False), "recipe": str(model.recipe_)}


REFERENCE = "masked-table"
CONTENDERS = {
    REFERENCE: Contender(label="MaskedTable…()", fit=default(), ours=True, is_random=True),
    "masked-table-fast": Contender(
        label="MaskedTable…(fast=True)", fit=default(fast=True), ours=True, is_random=True
    ),
    "masked-table-in-order": Contender(
        label="MaskedTable…(in_order=True)",
        fit=default(in_order=True),
        ours=True,
        is_random=True,
        unsuited=_without_order,
    ),
    "masked-table-attention": Contender(
        label="MaskedTable…(base='none')", fit=default(base="none"), ours=True, is_random=True
    ),
}
