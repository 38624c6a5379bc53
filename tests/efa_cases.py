"""Data with every kind of column, and small EFA models with random weights built for it."""

import numpy as np

from exfam.efa.networks.assemble import EFASettings, build_efa
from exfam.estimator.schema import Schema
from exfam.families import Family, Gaussian, Ordinal
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel
from model_cases import generator, make_groups, randomize

N_ITEMS = 9
LENGTHS = (5, 1, 4)
FAMILIES: dict[str, Family] = {"value": Ordinal(n=3, start=1), "other": Gaussian()}
ATTRIBUTES = ("genre", "gap", "place", "sex", "age")


def rich_groups(*, lengths=LENGTHS, seed: int = 0, **columns) -> Groups:
    """Items, two value columns, attributes of elements (code, number, pair) and of groups."""
    random = np.random.default_rng(seed)
    n = sum(lengths)
    columns.setdefault(
        "values",
        {
            "value": random.integers(1, 4, n).astype(np.float32),
            "other": random.normal(size=n).astype(np.float32),
        },
    )
    return make_groups(
        lengths=lengths,
        seed=seed,
        n_items=N_ITEMS,
        attributes={
            "genre": random.integers(0, 4, n),
            "gap": random.normal(3.0, 2.0, n),
            "place": random.normal(size=(n, 2)),
        },
        group_attributes={
            "sex": random.integers(0, 2, len(lengths)),
            "age": random.normal(40.0, 10.0, len(lengths)),
        },
        **columns,
    )


def rich_schema(groups: Groups, *, attributes=ATTRIBUTES, known=()) -> Schema:
    return Schema.of(groups, families=FAMILIES, attributes=attributes, known=known)


def small_model(schema: Schema, *, seed: int = 0, **choices) -> TwoPartModel:
    """A small model whose parameters are all random."""
    sizes: dict = {"embed_dim": 8, "n_heads": 2, "head_dim": 4, "head_hidden_dim": 6}
    source, settings = generator(seed), EFASettings(**sizes | choices)
    return randomize(build_efa(schema, settings, generator=source), source)
