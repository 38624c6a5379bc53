"""Our models of coded tables: masked tables by default, and with their parts set by hand."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from exfam_studies.experts.table_rules import Fitted

__all__ = ["ENSEMBLE", "N_RECIPES", "OUR_SETTINGS", "fit_masked_table"]

# How many recipes the defaults try by validation on the training rows.
N_RECIPES = 4
ENSEMBLE = 10
# As the paper's model: one space of categories for all columns, and MASK tokens in the context.
_SHARED: Mapping[str, Any] = {
    "categories": "shared",
    "ordinal": False,
    "extra_masking": 0.7,
    "masked_as": "mask",
}
# What differs from the defaults of MaskedTableClassifier, by model.
OUR_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "masked-table": {},
    "masked-table-ensemble": {"ensemble": ENSEMBLE},
    "masked-table-linear": {"ordinal": False, "extra_masking": 0.0},
    "masked-table-ordinal": {"ordinal": True, "extra_masking": 0.0},
    "masked-table-shared": _SHARED,
    "masked-table-shared-ensemble": {**_SHARED, "ensemble": ENSEMBLE},
}


def fit_masked_table(
    train_x: Int64[np.ndarray, "rows columns"],
    train_y: Int64[np.ndarray, "rows"],
    *,
    n_categories: int,
    seed: int,
    settings: Mapping[str, Any],
) -> Fitted:
    """A masked table whose columns and response have the same ordered labels.

    >>> x, y = np.array([[0, 1], [1, 0]] * 8), np.array([0, 1] * 8)
    >>> fast = {"max_epochs": 1}
    >>> fitted = fit_masked_table(x, y, n_categories=2, seed=0, settings=fast)
    >>> fitted.predict_proba(x).shape
    (16, 2)
    """
    from exfam.tables import MaskedTableClassifier

    labels = list(range(n_categories))
    kinds = {name: labels for name in [*_names(train_x), "y"]}
    model = MaskedTableClassifier(kinds=kinds, seed=seed, progress=False, **settings)
    model.fit(_frame(train_x), train_y)
    return Fitted(partial(_chances, model), _chosen(model))


def _names(x: Int64[np.ndarray, "rows columns"]) -> list[str]:
    return [f"x{place}" for place in range(x.shape[1])]


def _frame(x: Int64[np.ndarray, "rows columns"]) -> dict[str, np.ndarray]:
    return dict(zip(_names(x), x.T, strict=True))


def _chances(model: Any, x: Int64[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows _"]:
    return model.predict_proba(_frame(x))


def _chosen(model: Any) -> dict[str, str | int | float | bool | None]:
    """What validation on the training rows chose, and each recipe's nats there."""
    recipe = model.recipe_
    chosen = {"ordinal": recipe.ordinal, "extra_masking": recipe.extra_masking}
    for trial in model.trials_:
        told = f"validation nats, ordinal={trial.recipe.ordinal}, "
        chosen[told + f"extra_masking={trial.recipe.extra_masking}"] = -trial.nats
    return chosen
