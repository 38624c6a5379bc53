"""All parts of a model of events, and how they are fitted together."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from exfam.checks import DataError, ExfamError
from exfam.efa.events.event_attention import AttentionCorrection
from exfam.efa.events.event_items import ItemPart, fit_item_part
from exfam.efa.events.event_streams import EventStreams, Spells, observed_values, spells_of
from exfam.efa.events.event_values import ValueFits, ValuePart
from exfam.efa.events.fit_attention import AttentionFit
from exfam.efa.events.fit_time import TimeOptions, fit_time_part
from exfam.efa.events.time_part import TimePart
from exfam.efa.values.auto_family import auto_family
from exfam.efa.values.values_base import ValueOptions
from exfam.estimator.gain import Gain
from exfam.estimator.schema import check_in_support
from exfam.families import Family, Histogram, StudentT, choose_family
from exfam.groups import Groups

# Streams from which on whole ones are held out, and not the last part of each.
_LEAST_STREAMS = 20
# Families are guessed from stretches of streams of this many events.
_STRETCH = 50


@dataclass(frozen=True, eq=False)
class EventModel:
    """p(time | past) p(item | time, past) p(value | item, time, past)."""

    time: TimePart
    item: ItemPart | None
    values: tuple[ValuePart, ...]

    def log_probs(
        self, streams: EventStreams
    ) -> tuple[dict[str, Float[np.ndarray, "events"]], Float[np.ndarray, "streams"]]:
        """Nats of the events by part, and of what did not come until observation ended."""
        times, ends = self.time.log_probs(streams)
        parts = {"time": times}
        if self.item is not None:
            parts["item"] = self.item.log_probs(streams, self.time.clock)
        clock = self.time.clock
        return parts | {part.column: part.log_probs(streams, clock) for part in self.values}, ends

    def corrected(self, corrections: Mapping[str, AttentionCorrection]) -> "EventModel":
        """The same parts with corrections by name; those that are not named have none."""
        item = self.item
        return EventModel(
            replace(self.time, correction=corrections.get("time")),
            None if item is None else replace(item, correction=corrections.get("item")),
            tuple(replace(part, correction=corrections.get(part.column)) for part in self.values),
        )

    @property
    def corrections(self) -> tuple[AttentionCorrection, ...]:
        """Those of all parts that have one."""
        parts = (self.time, self.item, *self.values)
        own = (part.correction for part in parts if part is not None)
        return tuple(correction for correction in own if correction is not None)

    def check(self, groups: Groups) -> None:
        """Raise if groups lack what the model predicts, or have values that it cannot take."""
        if self.item is not None and groups.item is None:
            raise ExfamError("`item` must be given, as it was in training, got events without.")
        for part in self.values:
            if part.column not in groups.values:
                raise ExfamError(
                    f"`value` must be given, as it was in training, got no {part.column!r}."
                )
        check_in_support(groups, {part.column: part.family for part in self.values})

    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers, by name."""
        held = {f"time.{name}": array for name, array in self.time.arrays().items()}
        if self.item is not None:
            held |= {f"item.{name}": array for name, array in self.item.arrays().items()}
        for number, part in enumerate(self.values):
            held |= {f"value{number}.{name}": array for name, array in part.arrays().items()}
        return held

    def config(self) -> dict[str, Any]:
        """What else a saved model needs."""
        return {
            "time": self.time.config(),
            "item": None if self.item is None else self.item.config(),
            "values": [part.config() for part in self.values],
        }

    @classmethod
    def restored(cls, config: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> "EventModel":
        """What `config` and `arrays` say."""

        def of(prefix: str) -> dict[str, np.ndarray]:
            start = f"{prefix}."
            return {
                name[len(start) :]: array
                for name, array in arrays.items()
                if name.startswith(start)
            }

        item = None if config["item"] is None else ItemPart.restored(config["item"], of("item"))
        values = tuple(
            ValuePart.restored(own, of(f"value{number}"))
            for number, own in enumerate(config["values"])
        )
        return cls(TimePart.restored(config["time"], of("time")), item, values)


def fit_event_model(
    estimator: Any, streams: EventStreams, *, zone: str | None, n_validation: int
) -> tuple[EventModel, dict[str, dict[str, float]], dict[str, Gain]]:
    """The parts of an estimator's parameters, nats of validation events and gains, by part.

    `zone`: of the calendar; `n_validation`: how many of the last streams are held out, 0 for a
    share of all
    """
    spells, groups = spells_of(streams), streams.groups
    if not len(spells):
        raise DataError(
            "`X` must have a group with two different times, or observed after its event, got none "
            "to learn waits from."
        )
    trained = _training(estimator, streams, spells, n_validation=n_validation)
    n_items = max(1, groups.n_items)
    options = TimeOptions(
        base=str(estimator.time_base),
        decays=None if estimator.decays is None else _decays(estimator.decays),
        zone=zone,
        n_items=n_items,
        has_items=groups.item is not None,
        has_values=bool(groups.values),
    )
    fitted = fit_time_part(streams, trained[1], options)
    choices, items, every = {"time": fitted.nats}, None, np.ones(len(streams.time), dtype=bool)
    if groups.item is not None:
        items = fit_item_part(streams, trained[0], n_items=n_items, seed=int(estimator.seed))
        choices["item"] = items.nats
    fits = {
        column: ValueFits(
            streams,
            column,
            _family_of(estimator, streams, column),
            clock=fitted.part.clock,
            n_items=n_items,
            zone=zone,
        )
        for column in groups.values
        if observed_values(streams, column).any()
    }
    timed = {column: fit.is_timed(trained[0]) for column, fit in fits.items()}

    def values_of(chosen: Bool[np.ndarray, "events"]) -> tuple[ValuePart, ...]:
        return tuple(
            fit.part(chosen, timed=timed[column])
            for column, fit in fits.items()
            if (observed_values(streams, column) & chosen).any()
        )

    model = EventModel(fitted.part, None if items is None else items.part, values_of(every))
    if estimator.attention == "none":
        return model, choices, {}
    of_training = EventModel(
        fitted.of_training, None if items is None else items.of_training, values_of(trained[0])
    )
    corrections, gains = _corrections(estimator, of_training, streams, trained)
    return model.corrected(corrections), choices, gains


def _corrections(
    estimator: Any, model: EventModel, streams: EventStreams, trained: tuple[Any, Any]
) -> tuple[dict[str, AttentionCorrection], dict[str, Gain]]:
    """What corrects parts that were fitted to training events, and what that gained, by part."""
    fit = AttentionFit(
        streams, trained, model.time, seed=int(estimator.seed), progress=bool(estimator.progress)
    )
    tried = {"time": fit.of_time()}
    if model.item is not None:
        tried["item"] = fit.of_items(model.item)
    tried |= {part.column: fit.of_values(part) for part in model.values}
    corrections = {name: own for name, (own, _) in tried.items() if own is not None}
    return corrections, {name: gain for name, (_, gain) in tried.items() if gain is not None}


def _decays(given: Any) -> tuple[float, ...]:
    rates = tuple(float(rate) for rate in np.atleast_1d(given))
    if not rates or not all(0 < rate < np.inf for rate in rates):
        raise ExfamError(f"`decays` must be finite rates > 0, one at least, got {given!r}.")
    return rates


def _training(
    estimator: Any, streams: EventStreams, spells: Spells, *, n_validation: int
) -> tuple[Bool[np.ndarray, "events"], Bool[np.ndarray, "spells"]]:
    """Which events, and which spells, are trained on before all are."""
    n = len(streams.groups)
    held_out = np.zeros(n, dtype=bool)
    share = float(estimator.validation_fraction)
    if n_validation:
        held_out[n - n_validation :] = True
    elif n >= _LEAST_STREAMS:
        random = np.random.default_rng(int(estimator.seed))
        held_out[random.permutation(n)[: int(n * share)]] = True
    else:
        opening = np.fmin(streams.begin, streams.end)
        first = np.full(n, np.inf)
        np.minimum.at(first, streams.stream, streams.time)
        opening = np.where(np.isnan(streams.begin), first, opening)
        cut = streams.end - share * (streams.end - opening)
        events = streams.time <= cut[streams.stream]
        return _unless_empty(events), _unless_empty(spells.stop <= cut[spells.stream])
    return _unless_empty(~held_out[streams.stream]), _unless_empty(~held_out[spells.stream])


def _unless_empty(chosen: np.ndarray) -> np.ndarray:
    """What was chosen; all where that is nothing, as of streams of one event."""
    return chosen if chosen.any() else np.ones_like(chosen)


def _family_of(estimator: Any, streams: EventStreams, column: str) -> Family:
    """The family that was named for a column, or the one that its values look like."""
    given = estimator.family
    if isinstance(given, Mapping):
        given = given.get(column, "auto")
    if not isinstance(given, str) or given != "auto":
        family = choose_family(given)
        check_in_support(streams.groups, {column: family})
        return family
    value = streams.groups.values[column].astype(np.float64)
    use = np.flatnonzero(observed_values(streams, column))
    start = np.arange(0, len(use), _STRETCH)
    stop = np.minimum(start + _STRETCH, len(use))
    item = None if streams.groups.item is None else streams.item[use]
    stretches = Groups(start=start, stop=stop, item=item, values={column: value[use]}, ordered=True)
    family = auto_family(stretches, column, ValueOptions(causal=True))
    # Bins of all values say little of those of one item.
    return StudentT() if isinstance(family, Histogram) and item is not None else family
