"""Reports about models of groups: items, values, or both."""

from exfam.efa.group_estimator import GroupEstimator
from exfam.estimator.gain import gain_sentences
from exfam.report import cautions
from exfam.report.contents import ReportContent, ReportRequest
from exfam.report.evaluation import Evaluation, evaluate, value_predictions
from exfam.report.material import Material, gather_material
from exfam.report.page import Summary
from exfam.report.sections.attention import attention_section
from exfam.report.sections.calibration import calibration_section
from exfam.report.sections.data import data_section, share_of_values
from exfam.report.sections.items import complements_section, map_section
from exfam.report.sections.model import model_section
from exfam.report.sections.scores import (
    Compared,
    compare_rivals,
    ranking_sentence,
    score_facts,
    score_section,
)
from exfam.report.verdicts import comparison_sentence
from exfam.report.words import clean, quantity

_MOST_VALUES = 3


def group_report(model: GroupEstimator, request: ReportRequest) -> ReportContent:
    """The page about a model of groups."""
    material = gather_material(
        model, request.data, request.train, baselines=request.baselines, seed=request.seed
    )
    scored = material.scored
    evaluation = None if scored is None else evaluate(model, scored, calibration=True)
    compared = compare_rivals(material, evaluation)
    return ReportContent(
        _lead(material),
        _summary(material, evaluation, compared),
        [
            data_section(material),
            model_section(material),
            score_section(material, evaluation, compared),
            calibration_section(material, evaluation),
            attention_section(material),
            map_section(material),
            complements_section(material),
        ],
    )


def _lead(material: Material) -> str:
    parts = ["items"] if material.has_items else []
    parts += [f"“{clean(spec.column, most=30)}”" for spec in material.model.schema_.values[:3]]
    what = f"{type(material.model).__name__}, {material.model.direction}, of {' and '.join(parts)}"
    if material.data is None:
        return f"{what}, without data."
    return f"{what}, on {quantity(len(material.data), 'group')} of data."


def _summary(
    material: Material, evaluation: Evaluation | None, compared: Compared | None
) -> Summary:
    parts = [] if compared is None else compared.parts
    said = [comparison_sentence(part.what, part.behind) for part in parts]
    said += [ranking_sentence(material, part) for part in parts if part.name == "item"]
    against = " ".join(filter(None, said))
    return Summary(
        quality=_quality(material, evaluation),
        against=against or "Nothing: no cheap baseline was fitted to compare with.",
        attention=" ".join(gain_sentences(material.model)),
        careful=_careful(material),
    )


def _quality(material: Material, evaluation: Evaluation | None) -> str:
    if evaluation is None or material.scored is None:
        return "Not known: no data were given to score the model on."
    *means, (_, n) = score_facts(material.scored, evaluation)
    if not means:
        return "Not known: the data hold nothing to predict."
    said = "; ".join(f"{value} {name}" for name, value in means)
    return f"{said}, over {n} elements (log-likelihood; higher is better)."


def _careful(material: Material) -> list[str]:
    scored = material.scored
    if scored is None or material.data is None:
        return []
    sentences = [
        cautions.of_seen(material.overlap, "groups"),
        cautions.of_few(len(scored), "group"),
    ]
    for column, predictions in list(value_predictions(material.model, scored).items())[
        :_MOST_VALUES
    ]:
        what = f"“{clean(column, most=30)}”"
        sentences.append(cautions.of_intervals(what, predictions.distribution, predictions.value))
    groups = material.data
    if families := material.model.schema_.families:
        share = 1 - share_of_values(families, groups)
        sentences.append(cautions.of_missing(share, "values"))
    if groups.ignored is not None and groups.ignored.any():
        left = quantity(int(groups.ignored.sum()), "element")
        sentences.append(f"{left} of items that the model does not know are left out.")
    return [sentence for sentence in sentences if sentence]
