"""The EventEFA estimator: when the next event comes, what it is, and with what value."""

import copy
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam.checks import (
    DataError,
    ExfamError,
    check_choice,
    check_inside,
    check_seed,
    check_whole,
)
from exfam.columns.parts import FrameColumns
from exfam.efa.events.event_answers import (
    CountWindows,
    calibration_of,
    count_events,
    draw_streams,
    explain_rates,
    levels_of_counts,
    names_of,
    predict_next,
)
from exfam.efa.events.event_declarations import (
    EventColumns,
    EventModelParameters,
    EventTraining,
)
from exfam.efa.events.event_model import EventModel, fit_event_model
from exfam.efa.events.event_reading import (
    check_window,
    dates_of,
    has_dates,
    moment_of,
    one_stream,
    row_numbers,
    zone_must_be_known,
)
from exfam.efa.events.event_results import (
    EventCalibration,
    EventCountCalibration,
    EventCounts,
    EventDraws,
    EventExplanation,
    EventPrediction,
)
from exfam.efa.events.event_streams import EventStreams, streams_of
from exfam.efa.inputs import Inputs, read_group_inputs
from exfam.estimator.base import Estimator, attribute
from exfam.estimator.evaluate import total_nats
from exfam.estimator.gain import Gain
from exfam.estimator.record import recorded
from exfam.estimator.rules import check_distinct, listed
from exfam.estimator.seen import Overlap, Seen, overlap_of_groups, seen_groups
from exfam.groups import Groups

PER = ("event", "time")


class EventEFA(EventColumns, EventModelParameters, EventTraining, Estimator):
    """Streams of events: p(time | past), p(item | time, past) and p(value | item, time, past).

    Items and values may be absent. Times have ties, a calendar, a Poisson, renewal or Hawkes
    process or a mixture of them, and a pace by stream; items have transitions, and what comes after
    a wait; values have a family, given what came before in the stream. Scores are exact
    log-likelihoods in nats, with the chance that nothing more came until observation ended.

    {parameters}

    After `fit`: `event_model_` (all that was learned), `vocabulary_`, `choices_` (the nats of
    validation events by part and by what was tried), `gains_` (what attention added to the base
    there, by part; without those that it was not tried on).

    >>> frame = {"patient": [1, 1, 1, 2, 2], "day": [0.0, 1.5, 2.0, 0.5, 4.0],
    ...     "code": ["in", "test", "out", "in", "out"]}
    >>> model = EventEFA(group="patient", time="day", item="code").fit(frame)
    >>> model.log_prob(frame).shape
    (5,)
    """

    kind = "event-efa"
    fitted_attribute = "event_model_"

    event_model_: EventModel = attribute()
    vocabulary_: dict[str, np.ndarray] = attribute()
    choices_: dict[str, dict[str, float]] = attribute()
    seen_: Seen = attribute()
    has_dates_: bool = attribute()
    gains_: dict[str, Gain] = attribute()

    @property
    def gain_(self) -> Gain | None:
        """What attention added to times, None where it was not tried."""
        return self.gains_.get("time")

    @recorded
    def fit(self, X: Any, y: None = None, *, validation: Any = None, end: Any = None) -> "EventEFA":
        """Fit to events: a frame, a file, or Groups whose `position` has times.

        `validation`: streams to choose by, in place of a share of those of `X`; they are fitted,
            too, once all is chosen
        `end`: until when all streams are observed, a number or a date, in place of the column
        Raises SupportError for values that the family cannot produce.
        """
        self._check_parameters()
        parts = [self._read(X)]
        if validation is not None:
            vocabulary = parts[0].groups.vocabulary
            parts.append(self._read(validation, vocabulary=vocabulary))
        groups = [part.groups.compact() for part in parts]
        whole = Inputs(Groups.concatenate(groups) if len(groups) > 1 else groups[0], 0)
        if not whole.groups.n_elements:
            raise DataError("`X` must have at least one event, got none.")
        streams = self._streams(whole, end=end)
        n_validation = 0 if validation is None else len(groups[1])
        dated = has_dates(X, self.time, self.dialect)
        zone = self.time_zone or ("UTC" if dated else None)
        fitted = fit_event_model(self, streams, zone=zone, n_validation=n_validation)
        self.event_model_, self.choices_, self.gains_ = fitted
        self.has_dates_ = zone is not None
        self.parameters_ = self.get_params(deep=False)
        self.vocabulary_ = dict(whole.groups.vocabulary)
        self.seen_ = seen_groups([whole.groups])
        self.data_counts_ = {
            "streams": len(whole.groups),
            "events": whole.groups.n_elements,
            "items": whole.groups.n_items,
        }
        return self

    def log_prob(self, X: Any, *, end: Any = None) -> Float[np.ndarray, "rows"]:
        """Log-probability in nats of every event given the past: time, item and values added.

        Times are densities per day (or unit of the column) unless there is a resolution. NaN where
        nothing of an event is predicted. What comes after the last event is in `log_survival`.
        """
        return total_nats(self.log_prob_parts(X, end=end))

    def log_prob_parts(self, X: Any, *, end: Any = None) -> dict[str, Float[np.ndarray, "rows"]]:
        """Log-probabilities in nats of "time", "item" and each value column, one a row.

        NaN where a part is not predicted: the time of an event that opens its stream, an unknown
        item, a value that is missing.
        """
        inputs, streams = self._given(X, end=end)
        parts, _ = self.event_model_.log_probs(streams)
        return {name: self._spread(inputs, nats) for name, nats in parts.items()}

    def log_survival(self, X: Any, *, end: Any = None) -> Float[np.ndarray, "streams"]:
        """Of each stream, the log-probability in nats that nothing came after its last event.

        Until the end of observation; 0 where the last event ends it.
        """
        return self.event_model_.log_probs(self._given(X, end=end)[1])[1]

    def score(self, X: Any, y: None = None, *, per: str = "event", end: Any = None) -> float:
        """Log-likelihood in nats, all parts together; higher is better.

        `per`: "event", or "time": of a day (or unit of the column) of observation of a stream
        """
        return sum(self.score_parts(X, per=per, end=end).values())

    def score_parts(self, X: Any, *, per: str = "event", end: Any = None) -> dict[str, float]:
        """The terms of `score`: "time", with what did not come, "item", and each value column."""
        check_choice("per", per, PER)
        _, streams = self._given(X, end=end)
        parts, survival = self.event_model_.log_probs(streams)
        sums = {name: float(np.nansum(nats)) for name, nats in parts.items()}
        if "time" in sums:
            sums["time"] += float(survival.sum())
        n_events = int((~np.isnan(total_nats(parts))).sum())
        size = n_events if per == "event" else np.nansum(streams.end - streams.opening)
        if not size:
            raise ExfamError(
                "`X` must hold at least one event that is predicted to score, and observation "
                "longer than a moment, got none."
            )
        return {name: summed / size for name, summed in sums.items()}

    def predict(self, X: Any, *, interval: float = 0.8, end: Any = None) -> EventPrediction:
        """The next event of each stream after observation ends, given all that is known then.

        Median and ends of a central interval of its time, the most probable item over these times,
        with the probabilities of all as `item_proba`, and the value expected of it.
        """
        check_inside("interval", interval)
        _, streams = self._given(X, end=end)
        labels = self.vocabulary_.get("item")
        found = predict_next(self.event_model_, streams, labels, interval=float(interval))
        return self._dated(found, "time", "low", "high").like(X)

    def predict_count(
        self,
        X: Any,
        window: float,
        *,
        interval: float = 0.9,
        n_draws: int = 200,
        seed: int = 0,
        end: Any = None,
    ) -> EventCounts:
        """How many events each stream will have in a window after observation ends, by draws.

        `window`: its length in days (or the unit of the column)
        """
        check_window(window)
        check_inside("interval", interval)
        check_whole("n_draws", n_draws)
        check_seed("seed", seed)
        _, streams = self._given(X, end=end)
        options = {"window": float(window), "n": int(n_draws), "interval": float(interval)}
        return count_events(self.event_model_, streams, **options, seed=int(seed)).like(X)  # type: ignore[arg-type]

    def sample(
        self,
        X: Any,
        *,
        steps: int | None = None,
        window: float | None = None,
        n: int = 1,
        seed: int = 0,
        end: Any = None,
    ) -> EventDraws:
        """Each stream goes on, `n` times: for `steps` events (10 unless given), or for a `window`.

        Times come by inversion of their distribution, then items, then values. The same seed gives
        the same draws.
        """
        for name, given in (("steps", steps), ("n", n)):
            if given is not None:
                check_whole(name, given)
        if window is not None:
            check_window(window)
            window = float(window)
        check_seed("seed", seed)
        _, streams = self._given(X, end=end)
        steps = 10 if steps is None and window is None else steps
        drawn = draw_streams(
            self.event_model_, streams, n=int(n), steps=steps, window=window, seed=int(seed)
        )
        labels = self.vocabulary_.get("item")
        item = None if self.event_model_.item is None or labels is None else labels[drawn.item]
        stream, draw = drawn.row // n, drawn.row % n
        time = drawn.time - streams.resolution
        draws = EventDraws(names_of(streams)[stream], draw, time, item, drawn.values)
        return self._dated(draws, "time").like(X)

    def explain(
        self, X: Any, *, rows: Any = None, top: int = 5, end: Any = None
    ) -> EventExplanation:
        """Which past events raised the rate of events, exactly.

        At the end of observation of each stream, or at the moments of the events in `rows`, in the
        order of `X`. Sources of a moment add up to its rate, but for events beyond the `top` ones.
        """
        check_whole("top", top)
        _, streams = self._given(X, end=end)
        chosen = None if rows is None else row_numbers(rows)
        labels = self.vocabulary_.get("item")
        return explain_rates(self.event_model_, streams, labels, rows=chosen, top=int(top)).like(X)

    def calibration(self, X: Any, *, seed: int = 0, end: Any = None) -> EventCalibration:
        """Whether waits come as they are said to, by time rescaling: see `EventCalibration`.

        `seed`: of levels within cells, and of the samples of streams that the interval is of
        """
        check_seed("seed", seed)
        _, streams = self._given(X, end=end)
        return calibration_of(self.event_model_, streams, seed=int(seed)).like(X)

    def count_calibration(
        self,
        X: Any,
        window: float | None = None,
        *,
        n_windows: int = 200,
        n_draws: int = 200,
        since: Any = None,
        seed: int = 0,
    ) -> EventCountCalibration:
        """Whether counts come as they are said to, in windows one after the other.

        `window`: their length in days (or the unit of the column), five typical waits unless given.
            The first begins so long after the first event, or the beginning of observation
        `n_windows`: at most so many, chosen by `seed` of all that follow a window with an event
        `since`: a number or a date before which none begins, such as the end of training
        """
        if window is not None:
            check_window(window)
        for name, given in (("n_windows", n_windows), ("n_draws", n_draws)):
            check_whole(name, given)
        check_seed("seed", seed)
        _, streams = self._given(X)
        first = -np.inf if since is None else moment_of("since", since)
        windows = CountWindows(window, int(n_windows), first)
        options = {"n": int(n_draws), "seed": int(seed)}
        levels = levels_of_counts(self.event_model_, streams, windows, **options)
        return self._dated(levels, "moment").like(X)

    def without_attention(self) -> "EventEFA":
        """The base of this fitted model, which attention leaves as it is."""
        self._check_fitted()
        base = copy.copy(self)
        base.event_model_, base.gains_ = self.event_model_.corrected({}), {}
        return base

    def _dated(self, result: Any, *names: str) -> Any:
        """Times as dates where the data had dates."""
        if not self.has_dates_:
            return result
        return replace(result, **{name: dates_of(getattr(result, name)) for name in names})

    def seen_in_fit(self, X: Any) -> Overlap:
        """Which streams of `X` the model was fitted on, as `EFA.seen_in_fit`."""
        return overlap_of_groups(self, self._given(X)[0].groups).like(X)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        times = [name for name in (self.time, self.begin, self.end) if name is not None]
        check_distinct({"value": listed(self.value), "time": times})
        zone_must_be_known(self.time_zone)

    def _columns(self) -> FrameColumns | None:
        if self.time is None or self.group is None:
            return None
        times = [name for name in (self.time, self.begin, self.end) if name is not None]
        return FrameColumns(
            group=self.group, order=[self.time], item=self.item, value=self.value, position=times
        )

    def _read(self, X: Any, *, vocabulary: Mapping[str, np.ndarray] | None = None) -> Inputs:
        if self.time is None and not isinstance(X, Groups):
            raise DataError(
                "`time` must name the column of times to read a frame or file, got None. Pass "
                "time=… to the estimator, or Groups whose `position` has times."
            )
        X, columns = one_stream(X, self)
        return read_group_inputs(
            X,
            columns,
            vocabulary=vocabulary,
            unknown="error" if vocabulary is None else self.unknown,
            ordered=True,
            dialect=self.dialect,
        )

    def _given(self, X: Any, *, end: Any = None) -> tuple[Inputs, EventStreams]:
        self._check_fitted()
        inputs = self._read(X, vocabulary=self.vocabulary_)
        self.event_model_.check(inputs.groups)
        return inputs, self._streams(inputs, end=end)

    def _streams(self, inputs: Inputs, *, end: Any) -> EventStreams:
        return streams_of(
            inputs,
            has_begin=self.begin is not None,
            has_end=self.end is not None,
            end=None if end is None else moment_of("end", end),
            resolution=float(self.resolution or 0.0),
        )

    @staticmethod
    def _spread(inputs: Inputs, nats: Float[np.ndarray, "events"]) -> Float[np.ndarray, "rows"]:
        """Numbers of streams, which are compact, in the user's order."""
        flat = np.full(inputs.groups.n_rows, np.nan)
        flat[inputs.groups.elements()] = nats
        return inputs.spread(flat)

    def _seen(self, groups: Groups) -> Overlap:
        return overlap_of_groups(self, groups)

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        import torch

        arrays = self.event_model_.arrays()
        tensors = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}
        return {
            "model": self.event_model_.config(),
            "choices": self.choices_,
            "dates": self.has_dates_,
            "gains": {name: asdict(gain) for name, gain in self.gains_.items()},
        }, tensors

    def _restore(
        self, config: dict[str, Any], tensors: dict[str, Any], vocabulary: dict[str, np.ndarray]
    ) -> None:
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        self.event_model_ = EventModel.restored(config["model"], arrays)
        self.vocabulary_, self.choices_ = vocabulary, config["choices"]
        self.has_dates_ = bool(config["dates"])
        gains = config.get("gains") or {"time": config.get("gain")}
        self.gains_ = {name: Gain(**gain) for name, gain in gains.items() if gain is not None}
