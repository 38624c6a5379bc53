"""Parameters that estimators of groups have."""

from exfam.attention import CONNECTIONS, SCORE_KERNELS
from exfam.conditionals import CONDITIONALS
from exfam.efa.networks.assemble import JOINS, TIES, VALUE_EMBEDDINGS
from exfam.efa.networks.pooling import POOLINGS
from exfam.encodings import ENCODINGS
from exfam.estimator.choices import PARTS
from exfam.estimator.choices import SUPPORTS as ALL_SUPPORTS
from exfam.estimator.declarations import ANY_NUMBER, SEED, TRAINING, Families
from exfam.estimator.rules import (
    Choice,
    ColumnName,
    ColumnNames,
    Flag,
    Fraction,
    OrNone,
    Positive,
    Rules,
    Whole,
)
from exfam.likelihoods.support import DIRECTIONS

__all__ = ["EFA", "LATENT_FACTOR", "MARGINAL", "SHRUNK_OFFSET"]

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
