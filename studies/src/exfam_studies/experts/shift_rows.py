"""Rows of tables with a natural shift: means, their standard errors, paired differences."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.experts.shift_store import ShiftResult

__all__ = ["difference_rows", "figure_rows"]

WHOLE = "0"  # the place of rows without dropped cells


def figure_rows(
    results: Sequence[ShiftResult],
    *,
    validation: ShiftResult | None,
    row: Row,
) -> list[Row]:
    """One row a place and loss of one model: the mean over rows, then over fits, and its errors.

    `validation`: the same model measured on held-out training rows

    The setting "error" is the standard error over the rows reported on, `sd` that of fits.
    """
    rows = []
    for place, name in results[0].losses:
        named = _named(row, place, name)
        means = [result.mean(place, name) for result in results]
        if not np.isfinite(means).all():
            rows.append(replace(named, note="infinite: no chance for what happened"))
            continue
        held = [validation.mean(place, name)] if validation is not None else []
        whole = row_over_seeds(
            named,
            values=means,
            validations=[each for each in held if math.isfinite(each)],
            cpu_seconds=[result.cpu_seconds for result in results],
        )
        rows.append(_with_error(whole, _over_fits(results, place, name)))
    return rows


def difference_rows(
    results: Mapping[str, Sequence[ShiftResult]], *, ours: str, task: str
) -> list[Row]:
    """Of each model that is not one of ours, how much `ours` differs, fit by fit and row by row.

    `results`: by model

    Metrics "minus-…" are ours less theirs. The setting "error" is the standard error over rows of
    the mean difference over fits, and `sd` is over fits, which have other seeds and other cells
    dropped. Losses that are infinite make no row; where cells are dropped, only models fitted to
    rows with cells dropped are compared.
    """
    own = {result.key.number: result for result in results.get(ours, ())}
    rows = []
    for model, theirs in results.items():
        both = [(own[each.key.number], each) for each in theirs if each.key.number in own]
        if model.startswith("masked-table") or not both:
            continue
        for place, name in both[0][0].losses:
            # Of whole rows against all; where cells are missing, against who was prepared for it.
            if place != WHOLE and not model.endswith("-dropped"):
                continue
            with np.errstate(invalid="ignore"):  # what both gave no chance
                apart = [
                    mine.losses[place, name] - other.losses[place, name] for mine, other in both
                ]
            by_row = np.mean(apart, axis=0)
            if not np.isfinite(by_row).all():
                continue
            named = _named(Row(task=task, model=ours, metric=""), place, name)
            named = replace(
                named,
                metric=f"minus-{named.metric}",
                settings={**named.settings, "against": model},
            )
            row = row_over_seeds(named, values=[float(each.mean()) for each in apart])
            rows.append(_with_error(row, by_row))
    return rows


def _named(row: Row, place: str, name: str) -> Row:
    """`row` with what its figure is of."""
    metric, *rule = name.split()
    dropped, *by = place.split()
    settings = {**row.settings, "dropped": float(dropped)}
    settings |= {"by": by[0]} if by else {}
    settings |= {"rule": rule[0]} if rule else {}
    return replace(row, metric=metric, settings=settings)


def _over_fits(results: Sequence[ShiftResult], place: str, name: str) -> Float[np.ndarray, "rows"]:
    return np.mean([result.losses[place, name] for result in results], axis=0)


def _with_error(row: Row, by_row: Float[np.ndarray, "rows"]) -> Row:
    error = float(by_row.std(ddof=1) / math.sqrt(len(by_row)))
    assert row.value is not None
    note = row.note
    if row.metric.startswith("minus-") and error > 0:
        note = f"{row.value / error:+.1f} standard errors"
    return replace(row, settings={**row.settings, "error": float(f"{error:.4g}")}, note=note)
