"""Our models: masked tables by default, and with their parts set by hand.

Nothing was tuned for these tables: `masked-table` has all defaults, whose choices each fit makes
by validation on its training rows.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from exfam_studies.experts.tables.predictions import (
    Columns,
    Fitted,
    Predicted,
    spread,
    y_codes,
    y_levels,
    y_numbers,
)
from exfam_studies.experts.tables.public import TableShift

_ENSEMBLE = {"ensemble": 10}
# As the paper's model: one space of categories for all columns, and MASK tokens in the context.
_SHARED: Mapping[str, Any] = {
    "categories": "shared", "ordinal": False, "extra_masking": 0.7, "masked_as": "mask",
}  # fmt: skip
# What differs from the defaults, by model: of tables of codes, and of those with a natural shift.
CODED_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "masked-table": {},
    "masked-table-ensemble": _ENSEMBLE,
    "masked-table-linear": {"ordinal": False, "extra_masking": 0.0},
    "masked-table-ordinal": {"ordinal": True, "extra_masking": 0.0},
    "masked-table-shared": _SHARED,
    "masked-table-shared-ensemble": {**_SHARED, **_ENSEMBLE},
}
SHIFT_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "masked-table": {},
    "masked-table-missing": {"extra_masking": 0.7},
    "masked-table-deep": {"network": "deep", "ordinal": True, "extra_masking": 0.5},
    "masked-table-ensemble": _ENSEMBLE,
}


def fit_masked(
    table: TableShift, *, seed: int, settings: Mapping[str, Any], classes: bool = True
) -> Fitted:
    """A masked table of the training rows; categories unseen there are like missing cells.

    `classes`: predict chances of levels; else a number, or of levels the chances of what lies
        nearest to each code
    """
    from exfam.tables import MaskedTableClassifier, MaskedTableRegressor

    levels = y_levels(table) if table.task != "regression" else []
    kinds: dict[str, Any] = {
        name: list(table.levels.get(name, ())) or kind for name, kind in table.kinds.items()
    }
    if classes and table.task == "ordinal":
        # Only labels in order can be declared before they are seen.
        kinds["y"] = levels
    estimator = MaskedTableClassifier if classes else MaskedTableRegressor
    model: Any = estimator(kinds=kinds, seed=seed, progress=False, **settings)
    model.fit(dict(table.train), table.train_y if classes else y_numbers(table))

    def predict(columns: Columns) -> Predicted:
        if classes:
            codes = y_codes(model.classes_, levels)
            chances = model.predict_proba(dict(columns))
            return Predicted(chances=spread(chances, codes, n_levels=len(levels)))
        distribution = model.predict_dist(dict(columns))
        if not levels:
            return Predicted(mean=distribution.mean, log_prob=distribution.log_prob)
        n_rows = len(distribution)
        edges = np.arange(1, len(levels)) - 0.5
        below = [distribution.cdf(np.full(n_rows, edge)) for edge in edges]
        ends = np.stack([np.zeros(n_rows), *below, np.ones(n_rows)], axis=1)
        return Predicted(chances=np.clip(np.diff(ends, axis=1), 0, 1))

    return Fitted(predict, asdict(model.recipe_))
