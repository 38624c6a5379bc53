"""Reports about word vectors: of a model of a text, or of a file."""

from typing import Any

from exfam.plots import learning_curve
from exfam.report.contents import ReportContent, ReportRequest
from exfam.report.page import Facts, Part, Picture, Section, Summary
from exfam.report.vectors.analogy_section import analogy_section
from exfam.report.vectors.cloud_section import (
    cloud_cautions,
    length_section,
    spectrum_section,
    word_cloud,
)
from exfam.report.vectors.word_map_section import word_map_section
from exfam.report.vectors.word_material import WordMaterial, gather_words
from exfam.report.vectors.word_neighbor_section import (
    hub_cautions,
    word_hubs,
    word_neighbor_section,
)
from exfam.report.vectors.word_score_section import (
    against_sentence,
    quality_sentence,
    score_cautions,
    word_score_section,
)
from exfam.report.vectors.word_scores import score_words
from exfam.report.words import clean, quantity
from exfam.training.history import History

_MOST_NAMED = 12


def word_report(model: Any, request: ReportRequest) -> ReportContent:
    """The page about word vectors and the model that they are of, if any."""
    material = gather_words(model, request)
    scores, hubs, cloud = score_words(material), word_hubs(material), word_cloud(material)
    summary = Summary(
        quality=quality_sentence(material, scores),
        against=against_sentence(scores),
        careful=[
            *score_cautions(scores),
            *cloud_cautions(material, cloud),
            *hub_cautions(material, hubs),
        ],
    )
    sections = [
        _vectors_section(material),
        word_score_section(material, scores),
        word_neighbor_section(material, hubs),
        word_map_section(material),
        analogy_section(material, scores),
        length_section(material, cloud),
        spectrum_section(material, cloud),
    ]
    return ReportContent(_lead(material), summary, sections)


def _lead(material: WordMaterial) -> str:
    vectors = material.vectors
    what = "Word vectors" if material.model is None else type(material.model).__name__
    said = f"{what} of {quantity(len(vectors), 'word')}, {vectors.dim} numbers each"
    return f"{said}, {_contexts(material)}."


def _contexts(material: WordMaterial) -> str:
    vectors = material.vectors
    if vectors.tied:
        return "whose context vectors are their reflections"
    return "alone" if vectors.context is None else "and as many for the word as context"


def _vectors_section(material: WordMaterial) -> Section:
    vectors, model = material.vectors, material.model
    facts = [("words", f"{len(vectors):,}"), ("numbers per word", f"{vectors.dim:,}")]
    if material.counts is not None:
        total = int(material.counts.sum())
        facts += [
            ("words of text read", f"{total:,}"),
            ("of the rarest word", f"{material.counts.min():,}"),
        ]
    parts: list[Part] = [Facts(facts)]
    history: History | None = getattr(model, "history_", None)
    if history is not None and len(history):
        caption = "Minus the log-likelihood of the text it was fitted to, as it was trained."
        parts.append(Picture("Learning curve", learning_curve(history, width=4.6), caption))
    return Section("Vectors", text=_first_words(material), parts=parts)


def _first_words(material: WordMaterial) -> list[str]:
    some = [clean(material.vectors.words[row], most=20) for row in material.rows[:_MOST_NAMED]]
    return [f"The most frequent words: {', '.join(some)}."]
