"""Parameters that estimators of fields have."""

from exfam.encodings import ENCODINGS
from exfam.estimator.declarations import ANY_NUMBER, TRAINING, Families
from exfam.estimator.rules import (
    Choice,
    ColumnName,
    ColumnNames,
    Flag,
    Fraction,
    Numbers,
    OrNone,
    Positive,
    Rules,
    Whole,
)
from exfam.fields.networks.assemble import SCALES
from exfam.fields.networks.climate import CLIMATES
from exfam.fields.networks.gaussian_process import KERNELS
from exfam.fields.networks.kriging import VARIOGRAMS
from exfam.geometry import METRICS

__all__ = [
    "CLIMATOLOGY",
    "FIELD_EFA",
    "GAUSSIAN_PROCESS",
    "KRIGING",
    "LATENT_FACTOR",
    "RIDGE",
]

CLIMATOLOGY: Rules = {
    "time": OrNone(ColumnName()),
    "site": OrNone(ColumnName()),
    "coordinates": OrNone(ColumnNames()),
    "value": OrNone(ColumnName()),
    "metric": Choice(METRICS),
    "missing": Numbers(),
    "standardize": Choice(CLIMATES),
    "period": Positive(),
    "validation_fraction": Fraction(),
}

KRIGING: Rules = {**CLIMATOLOGY, "variogram": Choice(VARIOGRAMS)}

RIDGE: Rules = {**CLIMATOLOGY, "lags": Whole(least=0), "step": OrNone(Positive())}

GAUSSIAN_PROCESS: Rules = {**RIDGE, "kernel": Choice(KERNELS)}

LATENT_FACTOR: Rules = {
    **CLIMATOLOGY,
    **TRAINING,
    "k": OrNone(ANY_NUMBER),
    "dim": Whole(),
    "hidden_dim": Whole(),
    "intercept": Flag(),
}

FIELD_EFA: Rules = {
    **RIDGE,
    **TRAINING,
    "family": Families(),
    "scale": Choice(SCALES),
    "site_embedding": Flag(),
    "embed_dim": Whole(),
    "n_heads": Whole(),
    "head_dim": Whole(),
    "n_layers": Whole(least=0),
    "feed_forward_dim": Whole(least=0),
    "head_hidden_dim": Whole(least=0),
    "read_out_heads": Whole(least=0),
    "encoding": Choice(tuple(ENCODINGS)),
    "null_token": Flag(),
    "n_neighbors": OrNone(ANY_NUMBER),
    "hide": Fraction(),
    "dropout": Fraction(),
    "calibrate": Flag(),
}
