"""exfam's masked tables, with their defaults and without their base or their search of settings."""

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


def _settings(model: Any) -> dict[str, Any]:
    return {"parameters": model.get_params(deep=False), "recipe": str(model.recipe_)}


def _variants() -> dict[str, Contender]:
    """Those whose parameters there are."""
    named = {
        "masked-table-attention": ("base", "none", "MaskedTable…(base='none')"),
        "masked-table-fast": ("fast", True, "MaskedTable…(fast=True)"),
    }
    return {
        name: Contender(label=label, fit=default(**{key: value}), ours=True, is_random=True)
        for name, (key, value, label) in named.items()
        if key in MaskedTableClassifier.declared
    }


REFERENCE = "masked-table"
CONTENDERS = {
    REFERENCE: Contender(label="MaskedTable…()", fit=default(), ours=True, is_random=True),
    **_variants(),
}
