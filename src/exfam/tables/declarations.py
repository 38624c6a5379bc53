"""Parameters that estimators of tables have."""

from exfam.encodings import ENCODINGS
from exfam.estimator.declarations import TRAINING, Families
from exfam.estimator.rules import (
    ByColumn,
    Choice,
    Flag,
    Fraction,
    OrNone,
    OrWord,
    Positive,
    Rules,
    Share,
    TextByColumn,
    Whole,
)
from exfam.tables.answers.decisions import RULES
from exfam.tables.data import NUMERIC, UNKNOWN
from exfam.tables.networks.assemble import CATEGORIES, NETWORKS
from exfam.tables.networks.objective import MASKINGS

__all__ = ["CLASSIFIER", "MISSING_COLUMNS", "REGRESSOR", "TABLE"]

MISSING_COLUMNS = ("auto", "absent", "error")

TABLE: Rules = {
    **{name: rule for name, rule in TRAINING.items() if name != "clip"},
    "kinds": OrNone(ByColumn("a kind or to labels in order")),
    "date_format": OrNone(TextByColumn()),
    "numeric": Choice(NUMERIC),
    "n_bins": OrWord("auto", Whole(least=2)),
    "families": OrNone(ByColumn("a family")),
    "unknown": Choice(UNKNOWN),
    "missing_columns": Choice(MISSING_COLUMNS),
    "network": Choice(NETWORKS),
    "encoding": Choice(tuple(ENCODINGS)),
    "categories": Choice(CATEGORIES),
    "ordinal": OrWord("auto", Flag()),
    "extra_masking": OrWord("auto", Share()),
    "masked_as": Choice(tuple(MASKINGS)),
    "embed_dim": Whole(),
    "n_heads": Whole(),
    "head_dim": Whole(),
    "n_layers": Whole(),
    "feed_forward_dim": Whole(),
    "dropout": Fraction(),
    "learning_rate": OrWord("auto", Positive()),
    "weight_decay": OrWord("auto", Positive(zero=True)),
    "batch_size": OrWord("auto", Whole()),
    "max_epochs": OrWord("auto", Whole()),
    "n_targets": OrWord("auto", Whole()),
}

_SUPERVISED: Rules = {
    **TABLE,
    "response_share": OrNone(Fraction()),
    "unlabeled": Choice(("absent", "mask")),
}

CLASSIFIER: Rules = {
    **_SUPERVISED,
    "target": Choice(("auto", "categorical", "ordinal")),
    "decision": Choice(RULES),
}

REGRESSOR: Rules = {
    **_SUPERVISED,
    "family": OrWord("auto", OrWord("binned", Families())),
    "decision": Choice(("mean", "median")),
}
