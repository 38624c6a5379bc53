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

    `reads`: "groups", "fields", "tables", "text" (files, folders or sentences) or "sentences"
    `command`: its name in `exfam fit --model`, or `exfam fit words --model` if it reads text; None
        if it is fitted in Python alone
    """

    module: str
    name: str
    reads: str
    command: str | None = None


# The kind that saved models are of -> its class.
REGISTRY = {
    "efa": Entry("exfam.efa.efa", "EFA", "groups", "efa"),
    "latent-factor": Entry("exfam.efa.latent_factor", "LatentFactor", "groups", "latent-factor"),
    "marginal": Entry("exfam.efa.baselines", "Marginal", "groups", "marginal"),
    "shrunk-offset": Entry("exfam.efa.baselines", "ShrunkOffset", "groups", "shrunk-offset"),
    "field-efa": Entry("exfam.fields.efa", "FieldEFA", "fields", "field-efa"),
    "field-latent-factor": Entry(
        "exfam.fields.latent_factor", "FieldLatentFactor", "fields", "field-latent-factor"
    ),
    "field-climatology": Entry(
        "exfam.fields.baselines", "FieldClimatology", "fields", "field-climatology"
    ),
    "field-gaussian-process": Entry(
        "exfam.fields.baselines", "FieldGaussianProcess", "fields", "field-gaussian-process"
    ),
    "field-kriging": Entry("exfam.fields.baselines", "FieldKriging", "fields", "field-kriging"),
    "field-ridge": Entry("exfam.fields.baselines", "FieldRidge", "fields", "field-ridge"),
    "field-ridge-covariance": Entry(
        "exfam.fields.baselines", "FieldRidgeCovariance", "fields", "field-ridge-covariance"
    ),
    "masked-table": Entry("exfam.tables.table", "MaskedTable", "tables", "table"),
    "masked-table-classifier": Entry(
        "exfam.tables.classifier", "MaskedTableClassifier", "tables", "table-classifier"
    ),
    "masked-table-regressor": Entry(
        "exfam.tables.regressor", "MaskedTableRegressor", "tables", "table-regressor"
    ),
    "skip-gram": Entry("exfam.words.skipgram", "SkipGram", "text", "skip-gram"),
    "cbow": Entry("exfam.words.cbow", "CBOW", "text", "cbow"),
    "pmi-factorization": Entry("exfam.words.pmi", "PMIFactorization", "text", "pmi"),
    "lstm-language-model": Entry("exfam.language.lstm", "LSTMLanguageModel", "text"),
    "masked-language-model": Entry("exfam.language.masked", "MaskedLanguageModel", "text"),
    "positional-sentence-classifier": Entry(
        "exfam.language.positional", "PositionalSentenceClassifier", "sentences"
    ),
    "sentence-classifier": Entry("exfam.language.tuned", "SentenceClassifier", "sentences"),
    "sentence-regressor": Entry("exfam.language.tuned", "SentenceRegressor", "sentences"),
}


def class_of(kind: str) -> Any:
    """The class of a kind."""
    entry = REGISTRY[kind]
    return getattr(importlib.import_module(entry.module), entry.name)


def kinds_of(reads: str) -> tuple[str, ...]:
    """The kinds that read one sort of data.

    >>> kinds_of("tables")
    ('masked-table', 'masked-table-classifier', 'masked-table-regressor')
    """
    return tuple(kind for kind, entry in REGISTRY.items() if entry.reads == reads)
