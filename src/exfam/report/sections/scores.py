"""Exact scores of the model beside cheap baselines on the same elements."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from exfam.groups import Groups
from exfam.plots import interval_rows
from exfam.report.evaluation import Evaluation, evaluate_rival
from exfam.report.material import Material
from exfam.report.page import Facts, Part, Picture, Section, SideBySide, TableData
from exfam.report.rivals import Rival, fit_rivals
from exfam.report.words import figure, listing, quantity
from exfam.scores.metrics import (
    Estimate,
    Interval,
    mean_over_groups,
    ndcg_at,
    paired_bootstrap,
    recall_at,
)

_MINE = "this model"
_MOST_COLUMNS = 3


class _Entry(NamedTuple):
    """A row of a table: a model with what it says of the compared elements."""

    name: str
    note: str
    evaluation: Evaluation


def score_section(material: Material, evaluation: Evaluation | None) -> Section:
    """Nats of the model on the data, and tables of it and its rivals, one for each part."""
    if material.scored is None or evaluation is None:
        return Section("Scores", text=["Left out: no data were given to score the model on."])
    text = [_what(material), *_remembered(material)]
    parts: list[Part] = [Facts(_facts(material.scored, evaluation))]
    if material.learn is None or not material.compared.any():
        text.append(_why_alone(material))
        return Section("Scores", text=text, parts=parts)
    rivals, left_out = fit_rivals(material.model, material.learn, seed=material.seed)
    text.append(_fairness(material))
    parts += _comparisons(material, evaluation, rivals)
    if left_out:
        text.append("Baselines left out: " + " ".join(left_out))
    return Section("Scores", text=text, parts=parts)


def _what(material: Material) -> str:
    kind = "log-likelihood" if material.model.direction == "causal" else "pseudo-log-likelihood"
    assert material.scored is not None and material.data is not None
    part = f"{len(material.scored):,} of {quantity(len(material.data), 'group')}, drawn at random"
    whole = len(material.scored) == len(material.data)
    groups = f"all {quantity(len(material.data), 'group')}" if whole else part
    return (
        f"Exact {kind} in nats for each predicted element, of {groups}; higher is better. Standard "
        "errors (±) take groups as independent, not elements."
    )


def _remembered(material: Material) -> list[str]:
    """How many of the scored groups the model has seen in its fit."""
    words = "" if material.overlap is None else material.overlap.words("groups")
    if not words:
        return []
    assert material.overlap is not None
    if material.overlap.is_chance:
        return [f"{words}."]
    return [
        f"{words}: scores of these say how well the model remembers them, not how well it predicts."
    ]


def _why_alone(material: Material) -> str:
    if material.data is not None and len(material.data) < 2 and not material.given_train:
        return "Without cheap baselines: one group cannot be split to fit them on one half."
    if material.overlap is not None and not material.overlap.is_chance:
        return (
            "Without cheap baselines: too few groups are new to the model for a fair comparison. "
            "Give data that it was not fitted on."
        )
    return "Without cheap baselines, as chosen."


def _fairness(material: Material) -> str:
    assert material.learn is not None
    n, learned = int(material.compared.sum()), quantity(len(material.learn), "group")
    new = "" if material.overlap is None or material.overlap.is_chance else " new to the model"
    if material.given_train:
        return (
            f"The baselines were fitted on {learned} given as training data, and are compared on "
            f"{quantity(n, 'group')} of the data{new}. The comparison is fair if the model was "
            "fitted on the same training data."
        )
    return (
        f"No training data were given: the baselines were fitted on {learned} of the data, one "
        f"half, and all are compared on {quantity(n, 'group')} of the other half{new}. For a fair "
        "comparison give the model's training data as well."
    )


def _facts(groups: Groups, evaluation: Evaluation) -> list[tuple[str, str]]:
    group = _group_of_rows(groups)
    nats = np.stack([evaluation.nats[name] for name in evaluation.nats])
    counts = ~np.isnan(nats).all(axis=0)
    facts = []
    if len(evaluation.nats) > 1 and counts.any():
        total = np.nansum(nats, axis=0)[counts]
        facts.append(("nats per element", _with_error(mean_over_groups(total, group[counts]))))
    for name, nats_of_part in list(evaluation.nats.items())[:_MOST_COLUMNS]:
        here = ~np.isnan(nats_of_part)
        if here.any():
            label = "nats per item" if name == "item" else f"nats per value of “{name}”"
            facts.append((label, _with_error(mean_over_groups(nats_of_part[here], group[here]))))
    facts.append(("predicted elements", f"{int(counts.sum()):,}"))
    return facts


def _with_error(estimate: Estimate) -> str:
    mean = figure(estimate.mean)
    return mean if np.isnan(estimate.error) else f"{mean} ± {figure(estimate.error)}"


def _group_of_rows(groups: Groups) -> np.ndarray:
    return np.repeat(np.arange(len(groups)), groups.stop - groups.start)


def _comparisons(material: Material, evaluation: Evaluation, rivals: Sequence[Rival]) -> list[Part]:
    assert material.scored is not None
    rows = material.compared[_group_of_rows(material.scored)]
    entries = [_Entry(_MINE, "", evaluation)]
    for rival in rivals:
        theirs = evaluate_rival(rival, material.model, material.scored)
        entries.append(_Entry(rival.name, rival.note, theirs))
    parts: list[Part] = []
    for name in list(evaluation.nats)[: _MOST_COLUMNS + 1]:
        here = rows & ~np.isnan(evaluation.nats[name])
        if here.any():
            parts.append(_comparison(material, name, entries, here))
    return parts


def _comparison(material: Material, name: str, entries: Sequence[_Entry], here: np.ndarray) -> Part:
    """The table of one part and the picture of the differences."""
    assert material.scored is not None
    group = _group_of_rows(material.scored)[here]
    nats = {
        entry.name: entry.evaluation.nats[name][here]
        for entry in entries
        if name in entry.evaluation.nats
    }
    ahead = {rival: nats[_MINE] - theirs for rival, theirs in nats.items() if rival != _MINE}
    behind = {
        rival: paired_bootstrap(difference, group, seed=material.seed, n=1000)
        for rival, difference in ahead.items()
        # An impossible observation leaves no finite difference to draw.
        if np.isfinite(difference).all()
    }
    ranks_items = [e.name for e in entries if name == "item" and e.evaluation.rank is not None]
    ranked = sorted(
        (entry for entry in entries if entry.name in (*nats, *ranks_items)),
        key=lambda entry: -nats[entry.name].mean() if entry.name in nats else np.inf,
    )
    k = _first(len(material.names))
    rows = []
    for entry in ranked:
        own = nats.get(entry.name)
        score = "–" if own is None else _with_error(mean_over_groups(own, group))
        if name == "item":
            further = _item_metrics(entry, here, k)
        else:
            further = _value_metrics(material, name, entry, here)
        rows.append([entry.name, score, *further])
    table = TableData(
        ["", "nats", *(["recall", "NDCG"] if name == "item" else ["RMSE"])],
        rows,
        words=[""],
        title="Items" if name == "item" else f"Values of “{name}”",
        marked=[number for number, entry in enumerate(ranked) if entry.name == _MINE],
        caption=_caption(name, ranked, here, behind, k),
    )
    return SideBySide([table, _picture(name, behind)]) if behind else table


def _first(n_items: int) -> int:
    """How many items a ranking is judged by: 10, or a fifth of a small catalog."""
    return 10 if n_items >= 50 else max(1, n_items // 5)


def _item_metrics(entry: _Entry, here: np.ndarray, k: int) -> list[str]:
    if entry.evaluation.rank is None:
        return ["–", "–"]
    rank = entry.evaluation.rank[here]
    return [figure(recall_at(rank, k=k)), figure(ndcg_at(rank, k=k))]


def _value_metrics(material: Material, name: str, entry: _Entry, here: np.ndarray) -> list[str]:
    assert material.scored is not None
    value = np.asarray(material.scored.values[name], dtype=np.float64)[: len(here)][here]
    mean = entry.evaluation.mean[name][here]
    return [figure(float(np.sqrt(np.mean((value - mean) ** 2))))]


def _caption(
    name: str, ranked: Sequence[_Entry], here: np.ndarray, behind: dict[str, Interval], k: int
) -> str:
    """Who is ahead, first of all where it is a baseline; then what the figures are."""
    ahead = [rival for rival, interval in behind.items() if interval.high < 0]
    unclear = [rival for rival, interval in behind.items() if interval.low <= 0 <= interval.high]
    verdict = ""
    if ahead:
        nats = -min(behind[rival].mean for rival in ahead)
        verdict = (
            f"Ahead of this model in nats: {listing(ahead)}, by {figure(nats)} at most. Use the "
            "best of them, or fit this model to more data or with other settings. "
        )
    elif behind and not unclear:
        verdict = "This model is ahead of all baselines in nats. "
    if unclear:
        verdict += f"No clear difference from this model: {listing(unclear)}. "
    notes = f"{quantity(int(here.sum()), 'target')}."
    if name == "item":
        notes += f" Recall and NDCG at {k}: the item among the first {k} of the whole catalog."
        notes += " “marginal” ranks by popularity."
    else:
        notes += " RMSE of the predicted means."
    settings = [f"{entry.name}: {entry.note}" for entry in ranked if entry.note]
    return verdict + notes + (f" Settings: {'; '.join(settings)}." if settings else "")


def _picture(name: str, behind: dict[str, Interval]) -> Picture:
    order = sorted(behind, key=lambda rival: behind[rival].mean)
    intervals = np.array([(i.low, i.mean, i.high) for i in (behind[rival] for rival in order)])
    what = "items" if name == "item" else f"values of “{name}”"
    return Picture(
        f"How far baselines are behind: {what}",
        interval_rows(order, intervals, metric="nats behind this model"),
        "Mean difference for each target, with its 95 % interval when groups are drawn anew; left "
        "of zero a baseline is ahead.",
    )
