"""All estimators: where each lives, what it reads, and its name on the command line.

To add one: write the class in its slice, name it here. Saving, the command line, the documentation
and the contract tests go by this table.
"""

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One estimator.

    `reads`: "groups", "events", "fields", "tables", "communities", "text" (files, folders or
        sentences) or "sentences"
    `command`: its name in `exfam fit --model`, or `exfam fit words --model` if it reads text; None
        if it is fitted in Python alone
    """

    module: str
    name: str
    reads: str
    command: str | None = None


# The kind that saved models are of -> its class.
REGISTRY = {
    kind: Entry(f"exfam.{module}", name, reads, *(command or [kind]))
    for kind, module, name, reads, *command in (
        ("efa", "efa.efa", "EFA", "groups"),
        ("latent-factor", "efa.latent_factor", "LatentFactor", "groups"),
        ("marginal", "efa.baselines", "Marginal", "groups"),
        ("popularity", "efa.rankers", "Popularity", "groups"),
        ("item-knn", "efa.rankers", "ItemKNN", "groups"),
        ("ease", "efa.rankers", "EASE", "groups"),
        ("event-efa", "efa.events.event_efa", "EventEFA", "events", "events"),
        ("field-efa", "fields.efa", "FieldEFA", "fields"),
        ("field-latent-factor", "fields.latent_factor", "FieldLatentFactor", "fields"),
        ("field-climatology", "fields.baselines", "FieldClimatology", "fields"),
        ("field-gaussian", "fields.gaussian", "FieldGaussian", "fields"),
        ("field-gaussian-process", "fields.baselines", "FieldGaussianProcess", "fields"),
        ("field-kriging", "fields.baselines", "FieldKriging", "fields"),
        ("field-ridge", "fields.baselines", "FieldRidge", "fields"),
        ("field-ridge-covariance", "fields.baselines", "FieldRidgeCovariance", "fields"),
        ("masked-table", "tables.table", "MaskedTable", "tables", "table"),
        (
            "masked-table-classifier",
            "tables.supervised",
            "MaskedTableClassifier",
            "tables",
            "table-classifier",
        ),
        (
            "masked-table-regressor",
            "tables.supervised",
            "MaskedTableRegressor",
            "tables",
            "table-regressor",
        ),
        ("community", "tables.community.community", "Community", "communities"),
        ("skip-gram", "words.word_estimator", "SkipGram", "text"),
        ("cbow", "words.cbow", "CBOW", "text"),
        ("pmi-factorization", "words.pmi", "PMIFactorization", "text", "pmi"),
        ("lstm-language-model", "language.lstm", "LSTMLanguageModel", "text", None),
        ("masked-language-model", "language.masked", "MaskedLanguageModel", "text", None),
        (
            "positional-sentence-classifier",
            "language.positional",
            "PositionalSentenceClassifier",
            "sentences",
            None,
        ),
        ("sentence-classifier", "language.tuned", "SentenceClassifier", "sentences", None),
        ("sentence-regressor", "language.tuned", "SentenceRegressor", "sentences", None),
    )
}


def class_of(kind: str) -> Any:
    """The class of a kind."""
    entry = REGISTRY[kind]
    return getattr(importlib.import_module(entry.module), entry.name)


def kinds_of(reads: str) -> tuple[str, ...]:
    """The kinds that read one sort of data."""
    return tuple(kind for kind, entry in REGISTRY.items() if entry.reads == reads)
