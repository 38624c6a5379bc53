"""Parameters that estimators of fields share."""

from typing import Any

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

__all__ = ["ClimateModel", "FieldColumnNames", "FieldSplit", "FieldTraining", "Lags"]


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


class Lags(Declared, section="Model"):
    """Earlier maps."""

    lags: int = parameter(0, Whole(least=0), "how many earlier maps are seen as well")
    step: float | None = parameter(
        None,
        OrNone(Positive()),
        "time from a map to the next (in days for dates); the most frequent gap if None",
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
