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


def split_held_out(model: Any, train: Any, held_out: Any) -> tuple[Any, Any, bool]:
    """The groups to learn from, those to score, and whether the fit held these out."""
    return (train, train, False) if held_out is None else (train, held_out, True)


def unseen_groups(model: Any, groups: Any) -> Any:
    """The groups that the fit has not seen, or all where it has seen them by chance."""
    overlap = model._seen(groups)
    new = groups if overlap.is_chance else groups[overlap.seen == 0]
    return new if new.n_targets else None


@dataclass(frozen=True, eq=False)
class Comparison:
    """How a fitted model is compared with baselines on data.

    `units`: what the data are made of, such as "groups"
    `baselines`: of the model
    `figures`: of the model, it or a fitted baseline, and what is scored
    `unit`: of the model, what a mean is over
    `split`: of the model, training data and held-out data or None: the data that baselines learn
        from and those that are scored, and whether the fit held these out
    `unseen`: of the model and what is scored: what its fit has not seen; None if that has nothing
        to score
    `read`: of the model and a file's data: what is scored or learned from
    `notes`: of the model and training data: what else is said after a fit
    """

    units: str
    baselines: Callable[[Any], list[Baseline]]
    figures: Callable[[Any, Any, Any], Figures]
    unit: Callable[[Any], str] = lambda model: "per observation"
    split: Callable[[Any, Any, Any], tuple[Any, Any, bool]] = split_held_out
    unseen: Callable[[Any, Any], Any] = unseen_groups
    read: Callable[[Any, Any], Any] = lambda model, data: data
    notes: Callable[[Any, Any], list[str]] = lambda model, train: []


@dataclass(frozen=True, eq=False)
class Sort:
    """What commands do with models of one sort of data.

    `name`: as errors say it: a model of "groups"
    `read`: of the model, the chosen options and `file`: the file's data and a line about them
    `facts`: of the model: what it was fitted to, as plain values
    `reported`: of a file's data, as `read` gives them: what a report takes
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
    reported: Callable[[Any], Any] = lambda data: data


def sizes(model: Any) -> dict[str, int]:
    """The members of a fitted model, and the numbers of the first."""
    numbers = sum(parameter.numel() for parameter in model.members_[0].parameters())
    return {"members": len(model.members_), "numbers": numbers}
