"""Small networks of table rows, with columns of every kind, and weights far from their start."""

from dataclasses import replace

import numpy as np
import torch

from exfam import MaskedTableClassifier
from exfam.families import Categorical, Gaussian, Histogram, NegativeBinomial
from exfam.tables.data import Cells, Column, TableSchema
from exfam.tables.estimator.plan import TablePlan
from exfam.tables.networks.assemble import build_masked_table
from exfam.tables.networks.parts import TableSettings
from model_cases import randomize
from table_model_cases import cells_of, drop_cells, labels

EDGES = (-1.0, 0.5, 2.0)
MIXED = TableSchema(
    (
        labels("color", 3),
        labels("size", 4, "ordinal"),
        labels("new", 2, "boolean"),
        Column("price", "numeric", None, np.array([-4.0, 0.0, 1.0, 8.0, 9.0]), False, 2.0, 4.0),
        Column("height", "numeric", knots=np.array(EDGES), binned=True),
        Column("visits", "count", None, np.array([0.0, 1.0, 4.0, 9.0]), False, 3.0, 2.0),
    )
)
MIXED_LABELS = (Categorical(3), Categorical(4), Categorical(2))
MIXED_FAMILIES = (*MIXED_LABELS, Gaussian(), Histogram(EDGES), NegativeBinomial())
ALIKE = TableSchema(tuple(labels(name, 4, "ordinal") for name in "abcd"))
ALIKE_FAMILIES = (Categorical(4),) * 4

SETTINGS = TableSettings(
    network="linear",
    categories="per-column",
    ordinal=(True, False),
    embed_dim=8,
    n_heads=2,
    head_dim=4,
    n_layers=2,
    feed_forward_dim=6,
    dropout=0.0,
    norm="pre",
    masked_columns=(),
)


def mixed_cells(n=24, *, seed=0, absent=0.3):
    rng = np.random.default_rng(seed)
    whole = [rng.integers(0, n_labels, n) for n_labels in (3, 4, 2)]
    numbers = [rng.normal(2.0, 4.0, n), rng.normal(0.5, 1.5, n), rng.poisson(3.0, n)]
    cells = cells_of(MIXED, np.stack([*whole, *numbers], axis=1))
    return drop_cells(cells, share=absent, seed=seed + 1)


def alike_cells(n=24, *, seed=0, absent=0.3):
    rng = np.random.default_rng(seed)
    cells = cells_of(ALIKE, rng.integers(0, 4, (n, 4)))
    return drop_cells(cells, share=absent, seed=seed + 1)


def table_model(*, alike=False, cells=None, moved=0.3, seed=0, **changes):
    """A model in double precision, its weights `moved` at random from where they start."""
    schema, families = (ALIKE, ALIKE_FAMILIES) if alike else (MIXED, MIXED_FAMILIES)
    generator = torch.Generator().manual_seed(seed)
    cells = (alike_cells() if alike else mixed_cells()) if cells is None else cells
    options = {"families": families, "cells": cells, "generator": generator}
    model = build_masked_table(schema, replace(SETTINGS, **changes), **options).double()
    return randomize(model, generator, scale=moved).eval()


SHARED = {"alike": True, "categories": "shared"}
MASKED = {"masked_columns": ("size", "price")}
# What every masked table is tested on.
CASES = {
    "linear": {},
    "linear, shared": SHARED,
    "linear, MASK for absent": MASKED,
    "deep": {"network": "deep"},
    "deep, post-norm, shared": {"network": "deep", "norm": "post", **SHARED},
    "deep, MASK for absent": {"network": "deep", **MASKED},
}


def model_and_cells(case):
    options = CASES[case]
    return table_model(**options), alike_cells() if options.get("alike") else mixed_cells()


def batch_of(model, cells, weight=None):
    return model.rows(cells, weight).pad(np.arange(len(cells)))


def with_cells(cells, column, *, code=None, fraction=None, value=None):
    """The cells with some arrays of one column replaced, whether or not that makes sense."""
    arrays = [cells.code.copy(), cells.fraction.copy(), cells.value.copy()]
    for array, given in zip(arrays, (code, fraction, value), strict=True):
        if given is not None:
            array[:, column] = given
    return Cells(*arrays)


def other_cells(cells, schema, column):
    """The cells with every present one of a column moved to another token."""
    n_tokens = schema.columns[column].n_tokens
    code = cells.code[:, column]
    moved = np.where(code >= 0, (code + 1) % n_tokens, code)
    value = np.where(code >= 0, moved.astype(float), np.nan)
    return with_cells(cells, column, code=moved, fraction=0.0, value=value)


def parameters(**changes):
    """A small estimator whose recipe is open."""
    sizes = {"embed_dim": 8, "n_heads": 2, "n_layers": 1, "feed_forward_dim": 6, "dropout": 0.0}
    steps = {"learning_rate": 1e-2, "weight_decay": 0.0, "batch_size": 32, "max_epochs": 4}
    given = {"base": "none", "response_share": None, "progress": False, **sizes, **steps}
    return MaskedTableClassifier(**{**given, **changes})


def alike_plan(cells=None, *, response=3, **options):
    """A plan of a fit of the four ordinal columns."""
    cells = alike_cells(80) if cells is None else cells
    return TablePlan(ALIKE, cells, response, ALIKE_FAMILIES, **options)
