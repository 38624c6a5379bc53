"""Our models of tables with a natural shift: masked tables by default, and with parts set by hand.

Nothing was tuned for these tables: `masked-table` has all defaults, whose choices each fit makes
by validation on its training rows.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from exfam_studies.experts.public_tables import TableShift
from exfam_studies.experts.shift_peers import Predicted, ShiftFitted, y_codes, y_levels

__all__ = ["ENSEMBLE", "SHIFT_SETTINGS", "fit_shift_masked"]

ENSEMBLE = 10
# What differs from the defaults, by model.
SHIFT_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "masked-table": {},
    "masked-table-missing": {"extra_masking": 0.7},
    "masked-table-deep": {"network": "deep", "ordinal": True, "extra_masking": 0.5},
    "masked-table-ensemble": {"ensemble": ENSEMBLE},
}


def fit_shift_masked(
    shift: TableShift, *, seed: int, settings: Mapping[str, Any], classes: bool
) -> ShiftFitted:
    """A masked table of the training rows; categories unseen there are like missing cells.

    `classes`: predict chances of levels; else a number by a Gaussian law, or of levels the chances
        that the law has of what lies nearest to each code
    """
    from exfam.tables import MaskedTableClassifier, MaskedTableRegressor

    told = {"seed": seed, "progress": False, **settings}
    levels = y_levels(shift) if shift.task != "regression" else []
    if classes:
        # Only labels in order can be declared before they are seen.
        kinds = {**shift.kinds, "y": levels} if shift.task == "ordinal" else dict(shift.kinds)
        model: Any = MaskedTableClassifier(kinds=kinds, **told)
        model.fit(dict(shift.train), shift.train_y)
    else:
        model = MaskedTableRegressor(kinds=dict(shift.kinds), **told)
        coded = y_codes(shift.train_y, levels) if levels else shift.train_y
        model.fit(dict(shift.train), coded.astype(np.float64))

    def predict(columns: Mapping[str, np.ndarray]) -> Predicted:
        if classes:
            return Predicted(chances=_in_order(model, columns, levels))
        law = model.predict_dist(dict(columns))
        if not levels:
            return Predicted(mean=law.mean, log_prob=law.log_prob)
        below = [law.cdf(np.full(len(law), edge)) for edge in np.arange(1, len(levels)) - 0.5]
        ends = [np.zeros(len(law)), *below, np.ones(len(law))]
        return Predicted(chances=np.clip(np.diff(np.stack(ends, axis=1), axis=1), 0, 1))

    return ShiftFitted(predict, asdict(model.recipe_))


def _in_order(model: Any, columns: Mapping[str, np.ndarray], levels: list[Any]) -> np.ndarray:
    """Chances of all levels, none for those that the classifier never saw."""
    chances = np.zeros((len(next(iter(columns.values()))), len(levels)))
    chances[:, y_codes(model.classes_, levels)] = model.predict_proba(dict(columns))
    return chances
