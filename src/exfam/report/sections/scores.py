"""Exact scores of the model beside cheap baselines on the same elements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from exfam.groups import Groups
from exfam.plots import interval_rows
from exfam.report.evaluation import Evaluation, evaluate_rival
from exfam.report.material import Material
from exfam.report.page import Facts, Part, Picture, Section, SideBySide, TableData, left_out
from exfam.report.rivals import fit_rivals
from exfam.report.verdicts import verdict_of, with_error
from exfam.report.words import clean, figure, percent, quantity
from exfam.scores.metrics import (
    Interval,
    mean_over_groups,
    ndcg_at,
    paired_bootstrap,
    recall_at,
    rmse,
)

_MINE = "this model"
_MOST_COLUMNS = 3


class _Entry(NamedTuple):
    """A row of a table: a model with what it says of the compared elements."""

    name: str
    note: str
    evaluation: Evaluation


@dataclass(frozen=True, eq=False)
class PartComparison:
    """The model and its rivals on the targets of one part.

    `here`: which elements; `ranked`: the best first; `nats`: by name; `behind`: by how many nats
    rivals are, mean and interval
    """

    name: str
    here: Bool[np.ndarray, "elements"]
    ranked: Sequence[_Entry]
    nats: Mapping[str, np.ndarray]
    behind: Mapping[str, Interval]

    @property
    def what(self) -> str:
        """What is predicted, in words."""
        return "items" if self.name == "item" else f"values of “{clean(self.name, most=30)}”"


@dataclass(frozen=True, eq=False)
class Compared:
    """All parts compared, and the rivals that could not be fitted."""

    parts: Sequence[PartComparison]
    left_out: Sequence[str]


def compare_rivals(material: Material, evaluation: Evaluation | None) -> Compared | None:
    """The model beside cheap baselines, fitted now; None where there is nothing to compare."""
    if evaluation is None or material.learn is None or not material.compared.any():
        return None
    assert material.scored is not None
    rivals, left_out = fit_rivals(material.model, material.learn, seed=material.seed)
    rows = material.compared[_group_of_rows(material.scored)]
    entries = [_Entry(_MINE, "", evaluation)]
    for rival in rivals:
        theirs = evaluate_rival(rival, material.model, material.scored)
        entries.append(_Entry(rival.name, rival.note, theirs))
    parts = []
    for name in list(evaluation.nats)[: _MOST_COLUMNS + 1]:
        here = rows & ~np.isnan(evaluation.nats[name])
        if here.any():
            parts.append(_compared(material, name, entries, here))
    return Compared(parts, left_out)


def score_section(
    material: Material, evaluation: Evaluation | None, compared: Compared | None
) -> Section:
    """Nats of the model on the data, and tables of it and its rivals, one for each part."""
    if material.scored is None or evaluation is None:
        return left_out("Scores", "no data were given to score the model on.")
    text = [_what(material), *_remembered(material)]
    parts: list[Part] = [Facts(score_facts(material.scored, evaluation))]
    if compared is None:
        text.append(_why_alone(material))
        return Section("Scores", text=text, parts=parts)
    text.append(_fairness(material))
    parts += [_shown(material, part) for part in compared.parts]
    if compared.left_out:
        text.append("Baselines left out: " + " ".join(compared.left_out))
    return Section("Scores", text=text, parts=parts)


def _what(material: Material) -> str:
    kind = "log-likelihood" if material.model.direction == "causal" else "pseudo-log-likelihood"
    assert material.scored is not None and material.data is not None
    groups = quantity(len(material.data), "group")
    if len(material.scored) == len(material.data):
        groups = f"all {groups}"
    else:
        groups = f"{len(material.scored):,} of {groups}, drawn at random"
    return (
        f"Exact {kind} in nats for each predicted element, of {groups}; higher is better. Standard "
        "errors (±) take groups as independent, not elements."
    )


def _remembered(material: Material) -> list[str]:
    """How many of the scored groups the model has seen in its fit."""
    overlap = material.overlap
    if overlap is None or not (words := overlap.words("groups")):
        return []
    remembers = "scores of these say how well the model remembers them, not how well it predicts"
    return [f"{words}." if overlap.is_chance else f"{words}: {remembers}."]


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


def score_facts(groups: Groups, evaluation: Evaluation) -> list[tuple[str, str]]:
    """Nats with standard errors by name, and how many elements are predicted."""
    nats_of_parts = np.stack(list(evaluation.nats.values()))
    counts = ~np.isnan(nats_of_parts).all(axis=0)
    total = np.where(counts, np.nansum(nats_of_parts, axis=0), np.nan)
    numbers = {"nats per element": total} if len(evaluation.nats) > 1 else {}
    for name, nats in list(evaluation.nats.items())[:_MOST_COLUMNS]:
        numbers["nats per item" if name == "item" else f"nats per value of “{name}”"] = nats
    facts, group = [], _group_of_rows(groups)
    for label, nats in numbers.items():
        here = ~np.isnan(nats)
        if here.any():
            facts.append((label, with_error(mean_over_groups(nats[here], group[here]))))
    return [*facts, ("predicted elements", f"{int(counts.sum()):,}")]


def _group_of_rows(groups: Groups) -> np.ndarray:
    return np.repeat(np.arange(len(groups)), groups.stop - groups.start)


def _compared(
    material: Material, name: str, entries: Sequence[_Entry], here: np.ndarray
) -> PartComparison:
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
    return PartComparison(name, here, ranked, nats, behind)


def _shown(material: Material, compared: PartComparison) -> Part:
    """The table of one part and the picture of the differences."""
    assert material.scored is not None
    name, ranked, here = compared.name, compared.ranked, compared.here
    nats, behind = compared.nats, compared.behind
    group = _group_of_rows(material.scored)[here]
    k = _list_length(material)
    rows = []
    for entry in ranked:
        own, rank = nats.get(entry.name), entry.evaluation.rank
        score = "–" if own is None else with_error(mean_over_groups(own, group))
        if name != "item":
            value = np.asarray(material.scored.values[name], dtype=np.float64)[: len(here)]
            further = [figure(rmse(value[here], entry.evaluation.mean[name][here]))]
        elif rank is None:
            further = ["–", "–"]
        else:
            further = [figure(recall_at(rank[here], k=k)), figure(ndcg_at(rank[here], k=k))]
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


def _list_length(material: Material) -> int:
    """How long ranked lists are: of a small catalog, a fifth."""
    return 10 if len(material.names) >= 50 else max(1, len(material.names) // 5)


def ranking_sentence(material: Material, compared: PartComparison) -> str:
    """Which baseline finds more of the items in its lists, if one does."""
    k = _list_length(material)
    recalls = {
        entry.name: recall_at(entry.evaluation.rank[compared.here], k=k)
        for entry in compared.ranked
        if entry.evaluation.rank is not None
    }
    best = max(recalls, key=lambda name: recalls[name], default=_MINE)
    if best == _MINE:
        return ""
    return (
        f"{best} ranks better: the item is among its first {k} in {percent(recalls[best])}, among "
        f"the model's in {percent(recalls[_MINE])}."
    )


def _caption(
    name: str, ranked: Sequence[_Entry], here: np.ndarray, behind: Mapping[str, Interval], k: int
) -> str:
    """Who is ahead, first of all where it is a baseline; then what the figures are."""
    verdict = verdict_of(behind)
    notes = f"{quantity(int(here.sum()), 'target')}."
    if name == "item":
        notes += f" Recall and NDCG at {k}: the item among the first {k} of the whole catalog."
        notes += " “marginal” ranks by popularity."
    else:
        notes += " RMSE of the predicted means, or medians of families without a mean."
    settings = [f"{entry.name}: {entry.note}" for entry in ranked if entry.note]
    return verdict + notes + (f" Settings: {'; '.join(settings)}." if settings else "")


def _picture(name: str, behind: Mapping[str, Interval]) -> Picture:
    order = sorted(behind, key=lambda rival: behind[rival].mean)
    intervals = np.array([(i.low, i.mean, i.high) for i in (behind[rival] for rival in order)])
    what = "items" if name == "item" else f"values of “{name}”"
    return Picture(
        f"How far baselines are behind: {what}",
        interval_rows(order, intervals, metric="nats behind this model"),
        "Mean difference for each target, with its 95 % interval when groups are drawn anew; left "
        "of zero a baseline is ahead.",
    )
