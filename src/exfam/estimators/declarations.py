"""Parameters that estimators of groups have, and those of training that others have, too."""

from dataclasses import dataclass
from typing import Any

from exfam.attention import CONNECTIONS, SCORE_KERNELS
from exfam.checks import ExfamError
from exfam.conditionals import CONDITIONALS
from exfam.encodings import ENCODINGS
from exfam.estimators.choices import PARTS, check_families
from exfam.estimators.choices import SUPPORTS as ALL_SUPPORTS
from exfam.estimators.rules import (
    Choice,
    ColumnName,
    ColumnNames,
    Flag,
    Fraction,
    OrNone,
    Positive,
    Rule,
    Rules,
    Text,
    Whole,
)
from exfam.models.assemble import JOINS, TIES, VALUE_EMBEDDINGS
from exfam.models.pooling import POOLINGS
from exfam.models.support import DIRECTIONS

__all__ = [
    "ANY_NUMBER",
    "EFA",
    "LATENT_FACTOR",
    "MARGINAL",
    "SEED",
    "SHRUNK_OFFSET",
    "TRAINING",
    "Families",
]

# Numbers that may exceed what there is: all of it then counts.
ANY_NUMBER = Whole(most=2**53)
# Seeds are also added to, one for each member of an ensemble.
SEED = Whole(least=0, most=2**63 - 1)


@dataclass(frozen=True)
class Families(Rule):
    """A family, the name of one, or a mapping of columns to such."""

    @property
    def words(self) -> str:
        """What it is."""
        return "a family, the name of one, or a mapping of columns to these"

    def allows(self, value: Any) -> bool:
        """Whether `check` raises nothing."""
        try:
            check_families(value)
        except ExfamError:
            return False
        return True

    def check(self, name: str, value: Any) -> None:
        """As of all rules."""
        check_families(value)


TRAINING: Rules = {
    "learning_rate": Positive(),
    "weight_decay": Positive(zero=True),
    "batch_size": ANY_NUMBER,
    "max_epochs": ANY_NUMBER,
    "patience": ANY_NUMBER,
    "warmup": Fraction(),
    "clip": OrNone(Positive()),
    "validation_fraction": Fraction(),
    "ensemble": Whole(),
    "seed": SEED,
    "device": Text(),
    "progress": Flag(),
}

_GROUPS: Rules = {
    "group": OrNone(ColumnName()),
    "order": OrNone(ColumnNames()),
    "item": OrNone(ColumnName()),
    "value": OrNone(ColumnNames()),
    "direction": Choice(DIRECTIONS),
    "family": Families(),
    "validation_fraction": Fraction(),
    "seed": SEED,
    "unknown": Choice(("error", "ignore", "unk")),
}

_TRAINED: Rules = {
    **_GROUPS,
    **TRAINING,
    "parts": Choice(PARTS),
    "support": Choice(ALL_SUPPORTS),
    "dispersion": Choice(("global", "item")),
    "batch_tokens": OrNone(ANY_NUMBER),
    "n_sampled_items": Whole(least=0, most=2**53),
}

EFA: Rules = {
    **_TRAINED,
    "attributes": OrNone(ColumnNames()),
    "group_attributes": OrNone(ColumnNames()),
    "known": OrNone(ColumnNames()),
    "position": OrNone(ColumnNames()),
    "embed_dim": Whole(),
    "n_heads": Whole(),
    "head_dim": Whole(),
    "n_layers": Whole(),
    "feed_forward_dim": Whole(least=0),
    "connection": Choice(tuple(CONNECTIONS)),
    "encoding": Choice(("auto", *ENCODINGS)),
    "attention": Choice(tuple(SCORE_KERNELS)),
    "score_scale": OrNone(Positive()),
    "null_token": Flag(),
    "sees_mask": Flag(),
    "conditional": Choice(("auto", *CONDITIONALS)),
    "tie": Choice(TIES),
    "join": Choice(tuple(JOINS)),
    "item_sees_values": Flag(),
    "value_embedding": Choice(VALUE_EMBEDDINGS),
    "head_hidden_dim": Whole(least=0),
    "group_offset": Flag(),
    "dropout": Fraction(),
}

LATENT_FACTOR: Rules = {
    **_TRAINED,
    "dim": Whole(),
    "pooling": Choice(tuple(POOLINGS)),
    "intercept": Flag(),
    "mask_vector": Flag(),
}

MARGINAL: Rules = {
    **_GROUPS,
    "parts": Choice(PARTS),
    "support": Choice(("auto", "hard", "none")),
    "by_item": Flag(),
    "smoothing": Positive(),
}

SHRUNK_OFFSET: Rules = {**_GROUPS, "k": OrNone(Positive()), "item_prior": Positive()}
