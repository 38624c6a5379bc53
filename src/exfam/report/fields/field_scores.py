"""Exact scores of a field's values, beside baselines."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam.checks import ExfamError
from exfam.fields import FieldClimatology, FieldKriging
from exfam.fields.networks.links import counts
from exfam.plots import interval_rows
from exfam.report.fields.field_material import FieldMaterial, plain_maps_of
from exfam.report.page import Part, Picture, Section, SideBySide, TableData, left_out
from exfam.report.verdicts import verdict_of, with_error
from exfam.report.words import figure, quantity
from exfam.scores.metrics import Interval, mean_over_groups, paired_bootstrap, rmse

_TITLE, _MINE = "Scores", "this model"
_SHARED = ("metric", "standardize", "period")


@dataclass(frozen=True, eq=False)
class FieldScores:
    """Scores of each observed value that is compared, by model; the model's own come first.

    `nats`, `crps`, `mean`: by name; `value`, `group`: of the same values; `behind`: by how many
    nats each baseline is; `left_out`: why others are not there
    """

    nats: Mapping[str, Float[np.ndarray, "values"]]
    crps: Mapping[str, Float[np.ndarray, "values"]]
    mean: Mapping[str, Float[np.ndarray, "values"]]
    value: Float[np.ndarray, "values"]
    group: np.ndarray
    behind: Mapping[str, Interval]
    left_out: tuple[str, ...]


def score_field(material: FieldMaterial) -> FieldScores | None:
    """The model's scores, beside baselines where there is something to fit them to."""
    if material.scored is None:
        return None
    keep = ~np.isnan(material.value)
    rivals = [] if material.learn is None else list(_fitted(material))
    fitted = [(name, model) for name, model in rivals if not isinstance(model, str)]
    why_not = tuple(f"{name}: {why}" for name, why in rivals if isinstance(why, str))
    if fitted:
        keep &= material.compared[material.map_of]
    value, group = material.value[keep], material.map_of[keep]
    predictions = {_MINE: material.prediction}
    plain = plain_maps_of(material.scored)
    predictions |= {name: model.predict_dist(plain) for name, model in fitted}
    nats, crps, mean = {}, {}, {}
    for name, prediction in predictions.items():
        nats[name] = prediction.log_prob(material.value)[keep]
        crps[name] = prediction.crps(material.value)[keep]
        mean[name] = prediction.center[keep]
    behind = {
        name: paired_bootstrap(nats[_MINE] - nats[name], group, seed=material.seed, n=1000)
        for name, _ in fitted
        if len(value) and np.isfinite(nats[_MINE] - nats[name]).all()
    }
    return FieldScores(nats, crps, mean, value, group, behind, why_not)


def _fitted(material: FieldMaterial) -> Iterator[tuple[str, Any]]:
    """Baselines by name, or why they are left out."""
    model = material.model
    if counts(model.family_):
        yield "baselines", "they are of real numbers, and these are counts."
        return
    shared = {name: getattr(model, name) for name in _SHARED if hasattr(model, name)}
    if shared.get("standardize", "none") == "none":
        shared["standardize"] = "seasonal"
    for name, kind in (("climatology", FieldClimatology), ("kriging", FieldKriging)):
        if isinstance(model, kind):
            continue
        try:
            yield name, kind(**shared).fit(material.learn)
        except ExfamError as error:
            yield name, str(error)


def field_score_section(material: FieldMaterial, scores: FieldScores | None) -> Section:
    """Nats, CRPS and errors of the model and its baselines."""
    if scores is None or material.scored is None or material.maps is None:
        return left_out(_TITLE, "no data were given to score the model on.")
    n, everything = len(material.scored), len(material.maps)
    text = [
        f"Each observed value given the others of its map, and what the model sees of earlier "
        f"ones: {quantity(len(scores.value), 'value')} of {quantity(n, 'map')}"
        + (f" out of {everything:,}" if n < everything else "")
        + ". Exact log-density in nats, higher is better; continuous ranked probability score "
        "(CRPS) and root of the mean squared error (RMSE) in the unit of the value, lower is "
        "better. Standard errors (±) take maps as independent."
    ]
    text += _fairness(material, scores)
    if not len(scores.value):
        return left_out(_TITLE, "the maps that could be compared hold no value.")
    table = _table(scores)
    parts: list[Part] = [SideBySide([table, _picture(scores)])] if scores.behind else [table]
    return Section(_TITLE, text=text, parts=parts)


def _fairness(material: FieldMaterial, scores: FieldScores) -> list[str]:
    if material.learn is None:
        return ["Without baselines: none were wanted, or there are too few maps."]
    said = [f"Baselines left out: {' '.join(scores.left_out)}"] if scores.left_out else []
    learned = quantity(len(material.learn), "map")
    if material.given_train:
        return [f"The baselines were fitted on {learned} given as training data.", *said]
    return [
        f"No training data were given: the baselines were fitted on the first {learned} of the "
        "data, and all are compared on later ones. For a fair comparison give the model's training "
        "data as well.",
        *said,
    ]


def _table(scores: FieldScores) -> TableData:
    ranked = sorted(scores.nats, key=lambda name: -scores.nats[name].mean())
    rows = [
        [
            name,
            with_error(mean_over_groups(scores.nats[name], scores.group)),
            figure(scores.crps[name].mean()),
            figure(rmse(scores.value, scores.mean[name])),
        ]
        for name in ranked
    ]
    caption = verdict_of(scores.behind)
    if "climatology" in ranked:
        caption += "“climatology”: what is normal at the site and the time of the year. "
    if "kriging" in ranked:
        caption += "“kriging”: anomalies from the others of the map by one variogram."
    return TableData(
        ["", "nats", "CRPS", "RMSE"],
        rows,
        words=[""],
        marked=[ranked.index(_MINE)],
        caption=caption.strip(),
    )


def _picture(scores: FieldScores) -> Picture:
    order = sorted(scores.behind, key=lambda name: scores.behind[name].mean)
    ends = ("low", "mean", "high")
    intervals = np.array([[getattr(scores.behind[name], e) for e in ends] for name in order])
    return Picture(
        "How far baselines are behind",
        interval_rows(order, intervals, metric="nats behind this model"),
        "Mean difference for each value, with its 95 % interval when maps are drawn anew; left of "
        "zero a baseline is ahead.",
    )
