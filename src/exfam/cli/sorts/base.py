"""What every sort of data states."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

# Columns, and lines to say.
Answer = tuple[Any, list[str]]


@dataclass(frozen=True, eq=False)
class PlannedFit:
    """What `fit` takes, and what its scores are of.

    `train`, `held_out`: the data that the fit learns from, and those that scores are of, if any
    `description`: what was read, in lines
    `errors`: within it, errors of the fit name files and options
    """

    given: tuple[Any, ...]
    options: Mapping[str, Any]
    train: Any
    held_out: Any = None
    description: tuple[str, ...] = ()
    errors: AbstractContextManager[None] = field(default_factory=nullcontext)


@dataclass(frozen=True, eq=False)
class Baseline:
    """A cheap model to compare with.

    `fit`: of training and validation data, which may be None, the fitted baseline
    `advice`: what to do where it is ahead
    """

    name: str
    fit: Callable[[Any, Any], Any]
    advice: str


@dataclass(frozen=True, eq=False)
class Figures:
    """How well data are predicted: mean nats of each part, and other measures."""

    nats: Mapping[str, float]
    measures: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """The nats of all parts together."""
        return sum(self.nats.values())


@dataclass(frozen=True, eq=False)
class Comparison:
    """How a fitted model is compared with baselines on data.

    `units`: what the data are made of, such as "groups"
    `unit`: of the model, what a mean is over: "per observation"
    `split`: of the model, training data and held-out data or None: the data that baselines learn
        from and those that are scored, and whether the fit held these out
    `read`: of the model and a file's data: what is scored or learned from
    `unseen`: of the model and what is scored: what its fit has not seen; None if that has nothing
        to score
    `baselines`: of the model
    `figures`: of the model, it or a fitted baseline, and what is scored
    `notes`: of the model and training data: what else is said after a fit
    """

    units: str
    unit: Callable[[Any], str]
    split: Callable[[Any, Any, Any], tuple[Any, Any, bool]]
    unseen: Callable[[Any, Any], Any]
    baselines: Callable[[Any], list[Baseline]]
    figures: Callable[[Any, Any, Any], Figures]
    read: Callable[[Any, Any], Any] = lambda model, data: data
    notes: Callable[[Any, Any], list[str]] = lambda model, train: []


@dataclass(frozen=True, eq=False)
class Sort:
    """What commands do with models of one sort of data.

    `name`: as errors say it: a model of "groups"
    `read`: of the model, the chosen options and `file`: the file's data and a line about them
    `facts`: of the model: what it was fitted to, as plain values
    `answers`: by command, of the model, the data and the chosen options
    `instead`: commands that do not take such models, and what to do
    `refused`: options that are not for such models, and what to do
    `plan`: of an estimator and the chosen options: the plan of a fit
    `summary`: of a fitted model that is compared with nothing: the table of its fit
    """

    name: str
    read: Callable[..., tuple[Any, str]]
    facts: Callable[[Any], dict[str, Any]]
    answers: Mapping[str, Callable[[Any, Any, Any], Answer]]
    instead: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    plan: Callable[[Any, Any], PlannedFit] | None = None
    comparison: Comparison | None = None
    summary: Callable[[Any], dict[str, Any]] = lambda model: {}


def n_numbers(model: Any) -> int:
    """How many numbers a member of a fitted model has."""
    return sum(parameter.numel() for parameter in model.members_[0].parameters())
