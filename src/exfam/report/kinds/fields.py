"""Reports about models of fields: values at sites and times."""

from typing import Any

import numpy as np

from exfam.estimator.gain import gain_sentences
from exfam.families import family_to_config
from exfam.report import cautions
from exfam.report.contents import ReportContent, ReportRequest
from exfam.report.fields.field_material import FieldMaterial, gather_field, values_of
from exfam.report.fields.field_pictures import (
    next_section,
    next_station,
    series_section,
    site_section,
    station_section,
)
from exfam.report.fields.field_scores import FieldScores, field_score_section, score_field
from exfam.report.page import Facts, Part, Section, SideBySide, Summary, left_out
from exfam.report.sections.calibration import value_calibration
from exfam.report.sections.model import curve_picture, parameter_table
from exfam.report.verdicts import comparison_sentence, with_error
from exfam.report.words import clean, figure, quantity
from exfam.scores.metrics import mean_over_groups


def field_report(model: Any, request: ReportRequest) -> ReportContent:
    """The page about a model of a field."""
    material = gather_field(model, request)
    scores = score_field(material)
    return ReportContent(
        _lead(material),
        Summary(
            quality=_quality(material, scores),
            against=_against(scores),
            attention=_attention(model),
            careful=_careful(material),
        ),
        [
            station_section(material),
            _model_section(material),
            field_score_section(material, scores),
            _calibration(material),
            site_section(material),
            series_section(material),
            next_section(material, next_station(material)),
        ],
    )


def _lead(material: FieldMaterial) -> str:
    n = len(material.model.site_coordinates_)
    what = f"{type(material.model).__name__} of “{material.column}” at {quantity(n, 'site')}"
    if material.maps is None:
        return f"{what}, without data."
    return f"{what}, on {quantity(len(material.maps), 'map')} of data."


def _quality(material: FieldMaterial, scores: FieldScores | None) -> str:
    if scores is None or not len(scores.value):
        return "Not known: no data were given to score the model on."
    mine = scores.nats["this model"]
    nats = with_error(mean_over_groups(mine, scores.group))
    crps = figure(scores.crps["this model"].mean())
    return (
        f"A value is predicted from the others of its map with a mean error (CRPS) of {crps}, in "
        f"the unit of “{material.column}”; {nats} nats a value (log-likelihood; higher is better), "
        f"over {quantity(len(mine), 'value')}."
    )


def _against(scores: FieldScores | None) -> str:
    said = "" if scores is None else comparison_sentence("values", scores.behind)
    return said or "Nothing: no baseline was fitted to compare with."


def _attention(model: Any) -> str:
    if said := gain_sentences(model):
        return " ".join(said)
    if hasattr(model, "attention") and getattr(model, "base", "none") == "none":
        return "The model is attention alone: there is no base that it could add to."
    return "There is no attention in this model."


def _careful(material: FieldMaterial) -> list[str]:
    if material.maps is None or material.scored is None:
        return []
    mixture, value = material.observed
    new = int((material.site < 0).sum())
    sentences = [
        cautions.of_seen(material.overlap, "maps"),
        cautions.of_few(len(material.scored), "map"),
        cautions.of_intervals(f"“{material.column}”", mixture, value),
        cautions.of_missing(float(np.isnan(values_of(material.maps)).mean()), "values"),
    ]
    if new:
        sentences.append(
            f"{quantity(new, 'row')} of sites that training never saw are predicted from those "
            "around them."
        )
    return [sentence for sentence in sentences if sentence]


def _model_section(material: FieldMaterial) -> Section:
    model, shape = material.model, material.model.shape_
    text = [*gain_sentences(model)]
    facts = [
        ("sites", f"{shape.n_sites:,}"),
        ("earlier maps seen", f"{shape.lags}"),
        ("family", clean(family_to_config(model.family_)["name"], most=30)),
        ("distances", "on the globe" if shape.metric == "haversine" else "in the plane"),
    ]
    table, curve = parameter_table(model), curve_picture(model)
    if not table.rows:
        text.append("All parameters have their default values.")
    inside = ([table] if table.rows else []) + ([] if curve is None else [curve])
    parts: list[Part] = [Facts(facts)]
    return Section("The model", text=text, parts=[*parts, SideBySide(inside)] if inside else parts)


def _calibration(material: FieldMaterial) -> Section:
    title = "Calibration"
    if material.scored is None:
        return left_out(title, "no data were given to compare predictions with.")
    mixture, value = material.observed
    if not len(value):
        return left_out(title, "the maps hold no value.")
    text = ["A model is calibrated if what it gives 10 % happens one time in ten."]
    return Section(title, text=text, parts=[value_calibration(material.column, mixture, value)])
