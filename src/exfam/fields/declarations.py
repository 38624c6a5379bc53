"""Parameters that estimators of fields share."""

from typing import Any

from exfam.encodings import ENCODINGS
from exfam.estimator.declared import Declared, parameter
from exfam.estimator.rules import (
    ANY_NUMBER,
    SEED,
    Choice,
    ColumnName,
    ColumnNames,
    Flag,
    Fraction,
    Numbers,
    OrNone,
    Positive,
    Text,
    Whole,
)
from exfam.fields.networks.climate import CLIMATES
from exfam.geometry import METRICS

__all__ = [
    "ClimateModel",
    "FieldColumnNames",
    "FieldNetworkParameters",
    "FieldSplit",
    "FieldTraining",
    "Lags",
    "LatentFactorParameters",
    "RidgeSplit",
]


class FieldColumnNames(
    Declared, section="Columns of a frame (not needed for groups made with `read_field`)"
):
    """Columns of a frame of values at times and sites."""

    time: str | None = parameter(
        None, OrNone(ColumnName()), "the column of times: dates, timestamps or numbers"
    )
    site: str | None = parameter(None, OrNone(ColumnName()), "the column of sites")
    coordinates: Any = parameter(
        None, OrNone(ColumnNames()), "the columns of the sites' coordinates"
    )
    value: str | None = parameter(
        None,
        OrNone(ColumnName()),
        "the column of values; missing ones are predicted, never learned from",
    )
    metric: str = parameter(
        "haversine",
        Choice(METRICS),
        '"haversine" for (latitude, longitude) in degrees, or "euclidean"',
    )
    date_format: str | None = parameter(
        None,
        OrNone(Text()),
        'how text of `time` writes dates, such as "%d/%m/%Y"; None for ISO dates or the one format '
        "that all of the column fits",
    )
    missing: Any = parameter((), Numbers(), "number(s) that stand for a missing value, such as -99")


class ClimateModel(Declared, section="Model"):
    """What is normal at a site and time."""

    standardize: str = parameter(
        "site",
        Choice(CLIMATES),
        'what anomalies are taken from: "none", "global", "site" (its mean and spread), or '
        '"seasonal" (with a yearly course)',
    )
    period: float = parameter(365.25, Positive(), "length of the year in the unit of the times")


class FieldSplit(Declared, section="Training"):
    """What is held out."""

    validation_fraction: float = parameter(
        0.0, Fraction(), "share of the maps, the last ones, left out; nothing is chosen by them"
    )


class RidgeSplit(FieldSplit, section="Training"):
    """What penalties are chosen by."""

    validation_fraction: float = parameter(
        0.0,
        text="share of the maps, the last ones, that penalties are chosen by; without, they are "
        "chosen by folds of the training maps",
    )


class Lags(Declared, section="Model"):
    """Earlier maps."""

    lags: int = parameter(0, Whole(least=0), "how many earlier maps are seen as well")
    step: float | None = parameter(
        None,
        OrNone(Positive()),
        "time from a map to the next (in days for dates); the most frequent gap if None",
    )


class FieldNetworkParameters(Declared, section="Model"):
    """Sizes and parts of a network of maps."""

    scale: str = parameter(
        "input",
        Choice(("global", "input")),
        'whether scales and the like are "global" constants or depend on the "input": place, '
        "context and what it shows",
    )
    site_embedding: bool = parameter(
        False,
        Flag(),
        "whether each site has a learned vector beside its coordinates: better where "
        "predictions are for the sites of training, of no use at new ones",
    )
    embed_dim: int = parameter(64, Whole(), "length of the tokens")
    n_heads: int = parameter(4, Whole(), "attention heads")
    head_dim: int = parameter(16, Whole(), "length of each head's queries and keys")
    n_layers: int = parameter(
        1,
        Whole(least=0),
        "attention layers; 0 leaves the linear read-out alone, which can be better: on "
        "October temperatures of 44 cities its mean squared errors on the test days are 8.15,"
        " 8.25 and 8.12 (three seeds, squared degrees Fahrenheit), and with one layer 8.53",
    )
    feed_forward_dim: int = parameter(
        64, Whole(least=0), "hidden units after each attention layer, 0 for none"
    )
    head_hidden_dim: int = parameter(
        32, Whole(least=0), "hidden units of the head, 0 for a linear one"
    )
    read_out_heads: int = parameter(
        16, Whole(least=0), "heads of the linear read-out beside attention, 0 for none"
    )
    encoding: str = parameter(
        "distance",
        Choice(tuple(ENCODINGS)),
        '"distance" (scores fall with it), "none", or another name of '
        "`exfam.encodings.ENCODINGS`; of these, those that take real numbers serve places of "
        "one coordinate, all others refuse places in training",
    )
    null_token: bool = parameter(
        True,
        Flag(),
        'whether a learned key stands for "none of these", which few and far sites leave much'
        " weight to",
    )
    n_neighbors: int | None = parameter(
        None,
        OrNone(ANY_NUMBER),
        "how many of the nearest observed sites of each map are attended to; all if None, "
        "which takes time with the square of the number of sites",
    )
    hide: float = parameter(
        0.25,
        Fraction(),
        "share of the maps that hide some of their values in training, from none to all, so "
        "that any subset of sites can be the context; where all sites are always observed, "
        "less predicts better",
    )
    dropout: float = parameter(0.1, Fraction(), "share of units dropped in training")


class LatentFactorParameters(Declared, section="Model"):
    """Sizes of a latent factor model of maps."""

    k: int | None = parameter(
        5, OrNone(ANY_NUMBER), "how many of the nearest observed sites are summed over; all if None"
    )
    dim: int = parameter(32, Whole(), "length of the factors")
    hidden_dim: int = parameter(128, Whole(), "hidden units of the network that makes them")
    intercept: bool = parameter(
        False, Flag(), "whether a constant is added, which the paper has not"
    )


class FieldTraining(Declared, section="Training"):
    """Training by AdamW."""

    learning_rate: float = parameter(0.003, Positive(), "largest step size of AdamW")
    weight_decay: float = parameter(0.05, Positive(zero=True), "decoupled weight decay")
    batch_size: int = parameter(32, ANY_NUMBER, "maps in a step")
    max_epochs: int = parameter(150, ANY_NUMBER, "passes over the training maps at most")
    patience: int = parameter(
        40, ANY_NUMBER, "epochs without improvement on validation before stopping"
    )
    warmup: float = parameter(0.05, Fraction(), "share of the steps in which the step size grows")
    clip: float = parameter(1.0, OrNone(Positive()), "largest norm of a gradient")
    ensemble: int = parameter(
        1, Whole(), "models of seeds `seed`, `seed` + 1 …, whose densities are averaged"
    )
    seed: int = parameter(0, SEED, "of the initial weights and the batches")
    device: str = parameter("cpu", Text(), '"cpu", "cuda", or "auto": CUDA if present')
    progress: bool = parameter(True, Flag(), "whether to show progress in a terminal")
