"""Parameters that estimators of fields share."""

from typing import Any

from exfam.estimator.base import Declared, parameter
from exfam.estimator.file_parameters import DatedFiles
from exfam.estimator.precision import RoundedProducts
from exfam.estimator.rules import (
    ANY_NUMBER,
    SEED,
    Choice,
    ColumnName,
    ColumnNames,
    Flag,
    Fraction,
    OrNone,
    OrWord,
    Positive,
    Text,
    Whole,
)
from exfam.fields.data.facts import MOST_LAGS
from exfam.fields.networks.climate import CLIMATES
from exfam.geometry import METRICS


class FieldColumnNames(
    DatedFiles, section="Columns of a frame (not needed for groups made with `read_field`)"
):
    """Columns of a frame of values at times and sites."""

    time: str | None = parameter(
        OrNone(ColumnName()), "the column of times: dates, timestamps or numbers", default=None
    )
    site: str | None = parameter(OrNone(ColumnName()), "the column of sites", default=None)
    coordinates: Any = parameter(
        OrNone(ColumnNames()), "the columns of the sites' coordinates", default=None
    )
    value: str | None = parameter(
        OrNone(ColumnName()),
        "the column of values; missing ones are predicted, never learned from",
        default=None,
    )
    metric: str = parameter(
        Choice(METRICS),
        '"haversine" for (latitude, longitude) in degrees, or "euclidean"',
        default="haversine",
    )


class CovariateColumns(
    Declared, section="Columns of a frame (not needed for groups made with `read_field`)"
):
    """Columns of what is known beside values."""

    covariates: Any = parameter(
        OrNone(ColumnNames()),
        "columns of numbers known in every row: of sites, such as an altitude, or of sites and "
        "times, such as a forecast of the value",
        default=None,
    )


class Year(Declared, section="Model"):
    """How times are read."""

    period: float = parameter(
        Positive(), "length of the year in the unit of the times", default=365.25
    )


class ClimateModel(Declared, section="Model"):
    """What is normal at a site and time."""

    standardize: str = parameter(
        Choice(CLIMATES),
        'what anomalies are taken from: "none", "global", "site" (its mean and spread), or '
        '"seasonal" (with a yearly course)',
        default="site",
    )


class FieldSplit(Declared, section="Training"):
    """What is held out."""

    validation_fraction: float = parameter(
        Fraction(),
        "share of the maps, the last ones, left out; nothing is chosen by them",
        default=0.0,
    )


class RidgeSplit(FieldSplit, section="Training"):
    """What penalties are chosen by."""

    validation_fraction: float = parameter(
        text="share of the maps, the last ones, that penalties are chosen by; without, they are "
        "chosen by folds of the training maps",
        default=0.0,
    )


class Step(Declared, section="Model"):
    """How far earlier maps are from each other."""

    step: float | None = parameter(
        OrNone(Positive()),
        "time from a map to the next (in days for dates); the most frequent gap if None",
        default=None,
    )


class Lags(Step, section="Model"):
    """Earlier maps."""

    lags: int = parameter(
        Whole(least=0, most=MOST_LAGS), "how many earlier maps are seen as well", default=0
    )


class ChosenLags(Step, section="Model"):
    """Earlier maps of a base, which can choose how many."""

    lags: int | str = parameter(
        OrWord("auto", Whole(least=0, most=MOST_LAGS)),
        'how many earlier maps are seen as well; "auto" tries up to 7, for as long as maps of '
        "blocks of time held out become likelier by more than chance",
        default=0,
    )


class FieldNetworkParameters(Declared, section="Model"):
    """Sizes and parts of a network of maps."""

    scale: str = parameter(
        Choice(("global", "input")),
        'whether scales and the like are "global" constants or depend on the "input": place, '
        "context and what it shows",
        default="input",
    )
    site_embedding: bool = parameter(
        Flag(),
        "whether each site has a learned vector beside its coordinates: better where "
        "predictions are for the sites of training, of no use at new ones",
        default=False,
    )
    embed_dim: int = parameter(Whole(), "length of the tokens", default=64)
    n_heads: int = parameter(Whole(), "attention heads", default=4)
    head_dim: int = parameter(Whole(), "length of each head's queries and keys", default=16)
    n_layers: int = parameter(
        Whole(least=0),
        "attention layers; 0 leaves the linear read-out alone, which can predict better",
        default=1,
    )
    feed_forward_dim: int = parameter(
        Whole(least=0), "hidden units after each attention layer, 0 for none", default=64
    )
    head_hidden_dim: int = parameter(
        Whole(least=0), "hidden units of the head, 0 for a linear one", default=32
    )
    read_out_heads: int = parameter(
        Whole(least=0), "heads of the linear read-out beside attention, 0 for none", default=16
    )
    encoding: str = parameter(
        Choice(("distance", "none")),
        'encoding of coordinates: "distance" (scores fall with it), or "none"',
        default="distance",
    )
    null_token: bool = parameter(
        Flag(),
        'whether a learned key stands for "none of these", which few and far sites leave much'
        " weight to",
        default=True,
    )
    n_neighbors: int | None = parameter(
        OrNone(ANY_NUMBER),
        "how many of the nearest observed sites of each map are attended to; all if None, "
        "which takes time with the square of the number of sites",
        default=None,
    )
    hide: float = parameter(
        Fraction(),
        "share of the maps that hide some of their values in training, from none to all, so "
        "that any subset of sites can be the context; where all sites are always observed, "
        "less predicts better",
        default=0.25,
    )
    dropout: float = parameter(Fraction(), "share of units dropped in training", default=0.1)


class LatentFactorParameters(Declared, section="Model"):
    """Sizes of a latent factor model of maps."""

    k: int | None = parameter(
        OrNone(ANY_NUMBER),
        "how many of the nearest observed sites are summed over; all if None",
        default=5,
    )
    dim: int = parameter(Whole(), "length of the factors", default=32)
    hidden_dim: int = parameter(Whole(), "hidden units of the network that makes them", default=128)
    intercept: bool = parameter(
        Flag(), "whether a constant is added, which the paper has not", default=False
    )


class FieldTraining(RoundedProducts, section="Training"):
    """Training by AdamW."""

    validation_fraction: float = parameter(
        text="share of the maps, the last ones, held out to choose the best epoch", default=0.15
    )
    learning_rate: float = parameter(Positive(), "largest step size of AdamW", default=0.003)
    weight_decay: float = parameter(Positive(zero=True), "decoupled weight decay", default=0.05)
    batch_size: int = parameter(ANY_NUMBER, "maps in a step", default=32)
    max_epochs: int = parameter(ANY_NUMBER, "passes over the training maps at most", default=150)
    patience: int = parameter(
        ANY_NUMBER, "epochs without improvement on validation before stopping", default=40
    )
    warmup: float = parameter(
        Fraction(), "share of the steps in which the step size grows", default=0.05
    )
    clip: float = parameter(OrNone(Positive()), "largest norm of a gradient", default=1.0)
    ensemble: int = parameter(
        Whole(), "models of seeds `seed`, `seed` + 1 …, whose densities are averaged", default=1
    )
    seed: int = parameter(SEED, "of the initial weights and the batches", default=0)
    device: str = parameter(Text(), '"cpu", "cuda", or "auto": CUDA if present', default="auto")
    progress: bool = parameter(Flag(), "whether to show progress in a terminal", default=True)
