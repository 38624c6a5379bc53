"""What value an event has, given its item, its time and the past.

A value is standardized within its item, z = (y - center_i) / scale_i, and has a family whose
parameters are linear in what came before in the stream: the last value of the item, the mean of all
its values so far, and whether there was one,

    eta = W x + D_i x,    x = (1, z_last, mean z, 1{there was one}),

the D_i being held near 0. Where the family has no scale, z is y. Further inputs are of its time, if
that is ahead on events that were not fitted: see `ValueTimes`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from exfam.efa.events.event_attention import (
    AttentionCorrection,
    PastAttention,
    PastTokens,
    correction_arrays,
    correction_config,
    mark_tokens,
    restored_correction,
)
from exfam.efa.events.event_clock import EventClock
from exfam.efa.events.event_streams import EventStreams, observed_values, paired_lead
from exfam.efa.events.event_value_times import ValueTimes, moments_of
from exfam.families import Family, family_from_config, family_to_config
from exfam.families.real import location_and_scale

N_INPUTS = 4
# Values of an item from which on it has a center and a scale of its own.
_LEAST_VALUES = 8
# How far coefficients of items stand apart, and those of all from 0.
_ITEM_SPREAD, _SPREAD, _TIME_SPREAD = 0.5, 3.0, 0.1
_N_STEPS = 60
# Values that each fold of a choice is fitted to at most.
_MOST_CHOSEN = 10_000
# Values, and streams, from which on times are tried, and halves are of streams.
_LEAST_JUDGED, _LEAST_STREAMS = 40, 5
_MOST_INPUT = 8.0
_ARRAYS = ("units", "common", "by_item", "observed_share")


@dataclass(frozen=True, eq=False)
class ValuePart:
    """p(value | item, time, past) of one column.

    `units`: center and scale by item, the last row of unknown ones; `common`: W; `by_item`: D;
    `observed_share`: of events of each item, how many have a value; `times`: further inputs of W
    """

    column: str
    family: Family
    units: Float[np.ndarray, "items_and_unknown 2"]
    common: Float[np.ndarray, "inputs params"]
    by_item: Float[np.ndarray, "items_and_unknown past params"]
    observed_share: Float[np.ndarray, "items_and_unknown"]
    times: ValueTimes | None = None
    correction: AttentionCorrection | None = None

    def log_probs(self, streams: EventStreams, clock: EventClock) -> Float[np.ndarray, "events"]:
        """Nats of each event's value, NaN where there is none."""
        out = np.full(len(streams.time), np.nan)
        observed = np.flatnonzero(observed_values(streams, self.column))
        z, eta = self.targets(streams, clock, observed)
        if self.correction is not None:
            past = self.tokens(streams, clock, self.correction.network)
            eta = eta + torch.from_numpy(self.correction.logits_at(past, observed))
        nats = self.family.log_prob(z, eta).numpy()
        out[observed] = nats - np.log(self.units[streams.item[observed], 1])
        return out

    def targets(
        self, streams: EventStreams, clock: EventClock, rows: Int64[np.ndarray, "n"]
    ) -> tuple[Float[Tensor, "n"], Float[Tensor, "n params"]]:
        """Standardized values of events, and the parameters that the base has of them."""
        value = streams.groups.values[self.column].astype(np.float64)[rows]
        inputs, item = past_inputs(streams, self.column, self.units), streams.item[rows]
        if self.times is not None:
            moments = moments_of(streams, observed_values(streams, self.column), clock)
            inputs = self.times.inputs(inputs, *moments)
        inputs = inputs[rows]
        return torch.from_numpy(self.standard(value, item)), self.eta(inputs, item)

    def tokens(
        self, streams: EventStreams, clock: EventClock, network: PastAttention
    ) -> PastTokens:
        """What attention sees: the item of the event itself, and what the base sees."""
        further = past_inputs(streams, self.column, self.units)[:, 1:]
        return mark_tokens(streams, clock, network, shown=streams.item, further=further)

    def eta(
        self, inputs: Float[np.ndarray, "n inputs"], item: Int64[np.ndarray, "n"]
    ) -> Float[Tensor, "n params"]:
        """Parameters of the family in the item's unit."""
        own = np.einsum("ni,nip->np", inputs[:, :N_INPUTS], self.by_item[item])
        return torch.from_numpy(inputs @ self.common + own)

    def standard(
        self, value: Float[np.ndarray, "n"], item: Int64[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n"]:
        """Values in the units of items."""
        return (value - self.units[item, 0]) / self.units[item, 1]

    @staticmethod
    def input_of(z: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """Standardized values as inputs, far ones nearer."""
        return z.clip(-_MOST_INPUT, _MOST_INPUT)

    def restored_values(
        self, z: Float[np.ndarray, "n"], item: Int64[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n"]:
        """Values of what was standardized."""
        return self.units[item, 0] + self.units[item, 1] * z

    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers, by name."""
        held = {name: getattr(self, name) for name in _ARRAYS}
        if self.times is not None:
            held["breaks"] = self.times.breaks
        return held | correction_arrays(self.correction)

    def config(self) -> dict[str, Any]:
        """What else a saved model needs."""
        attention = correction_config(self.correction)
        family = family_to_config(self.family)
        has_dates = self.times is not None and self.times.has_dates
        held = {"column": self.column, "family": family, "attention": attention}
        return held | {"has_dates": has_dates}

    @classmethod
    def restored(cls, config: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> "ValuePart":
        """What `config` and `arrays` say."""
        units, common, by_item, share = (arrays[name] for name in _ARRAYS)
        correction = restored_correction(config, arrays)
        family, times = family_from_config(config["family"]), None
        if "breaks" in arrays:
            times = ValueTimes(arrays["breaks"], bool(config["has_dates"]))
        return cls(config["column"], family, units, common, by_item, share, times, correction)


def past_inputs(
    streams: EventStreams, column: str, units: Float[np.ndarray, "items_and_unknown 2"]
) -> Float[np.ndarray, "events inputs"]:
    """What came before each event: of its own item, in its stream, before it."""
    value = streams.groups.values[column].astype(np.float64)
    observed, item = observed_values(streams, column), streams.item
    z = np.where(observed, (value - units[item, 0]) / units[item, 1], 0.0)
    z = z.clip(-_MOST_INPUT, _MOST_INPUT)
    # By stream and item, in order, so that what came before stands above.
    order = np.lexsort((np.arange(len(item)), item, streams.stream))
    new = np.ones(len(item), dtype=bool)
    same = (streams.stream[order][1:] == streams.stream[order][:-1]) & (
        item[order][1:] == item[order][:-1]
    )
    new[1:] = ~same
    seen, summed = observed[order].astype(float), z[order]
    before = _before(seen, new)
    total = _before(summed, new)
    last = _last_before(summed, seen, new)
    has = before > 0
    inputs = np.zeros((len(item), N_INPUTS))
    columns = (np.ones(len(item)), last, total / np.maximum(before, 1), has.astype(float))
    inputs[order] = np.column_stack(columns)
    return inputs


def _before(numbers: Float[np.ndarray, "n"], new: Bool[np.ndarray, "n"]) -> np.ndarray:
    """Sums of what stands above in each run, which begins where it is `new`."""
    summed = np.append(0.0, np.cumsum(numbers))[:-1]
    opened = np.maximum.accumulate(np.where(new, np.arange(len(new)), 0))
    return summed - summed[opened]


def _last_before(
    numbers: Float[np.ndarray, "n"], seen: Float[np.ndarray, "n"], new: Bool[np.ndarray, "n"]
) -> np.ndarray:
    """The last number that was seen above in each run, 0 where none was."""
    index = np.arange(len(new))
    opened = np.maximum.accumulate(np.where(new, index, 0))
    held = np.maximum.accumulate(np.where(seen > 0, index, -1))
    last = np.append(-1, held[:-1]) if len(held) else held
    return np.where(last >= opened, numbers[last.clip(0)], 0.0)


def item_units(
    value: Float[np.ndarray, "n"], item: Int64[np.ndarray, "n"], *, n_items: int, kind: str
) -> Float[np.ndarray, "items_and_unknown 2"]:
    """Centers and scales of the values of items; those of all for rare ones.

    `kind`: how families change with the unit, as `Family.equivariance`
    """
    units = np.tile([0.0, 1.0], (n_items + 1, 1))
    if kind == "none" or not len(value):
        return units
    units[:] = _unit(value, kind)
    order = np.argsort(item, kind="stable")
    codes, first = np.unique(item[order], return_index=True)
    for code, own in zip(codes, np.split(value[order], first[1:]), strict=True):
        if len(own) >= _LEAST_VALUES and code >= 0:
            units[code] = _unit(own, kind)
    return units


def _unit(value: Float[np.ndarray, "n"], kind: str) -> tuple[float, float]:
    if kind == "location-scale":
        return location_and_scale(value)
    above = value[value > 0]
    return 0.0, float(np.median(above)) if len(above) else 1.0


@dataclass(frozen=True, eq=False)
class ValueFits:
    """Fits of a column: their options, and what its events have whatever is chosen.

    `zone`: of the calendar, None where times are numbers
    """

    streams: EventStreams
    column: str
    family: Family
    clock: EventClock
    n_items: int
    zone: str | None

    def part(self, chosen: Bool[np.ndarray, "events"], *, timed: bool) -> ValuePart:
        """The part of the highest likelihood of the chosen events, coefficients held near 0."""
        streams, family, n_items = self.streams, self.family, self.n_items
        observed = observed_values(streams, self.column)
        use = np.flatnonzero(observed & chosen)
        item = streams.item[use]
        value = streams.groups.values[self.column].astype(np.float64)[use]
        units = item_units(value, item, n_items=n_items, kind=family.equivariance)
        inputs, times = past_inputs(streams, self.column, units), None
        if timed:
            wait, age, local = moments_of(streams, observed, self.clock)
            times = ValueTimes.fit(wait[use], age[use], has_dates=self.zone is not None)
            inputs = times.inputs(inputs, wait, age, local)
        z = torch.from_numpy((value - units[item, 0]) / units[item, 1])
        common = torch.zeros(inputs.shape[1], family.n_params, dtype=torch.float64)
        by_item = torch.zeros(n_items + 1, N_INPUTS, family.n_params, dtype=torch.float64)
        code = torch.from_numpy(item % (n_items + 1))
        origin = torch.zeros_like(common)
        origin[0] = family.initial_eta(z).double()
        data = (torch.from_numpy(inputs[use]), code, z)
        fitted = _fitted((common, by_item), origin, data, family)
        size = np.bincount(streams.item % (n_items + 1), minlength=n_items + 1)
        share = np.bincount(item % (n_items + 1), minlength=n_items + 1) / np.maximum(size, 1)
        return ValuePart(self.column, family, units, *fitted, observed_share=share, times=times)

    def is_timed(self, chosen: Bool[np.ndarray, "events"]) -> bool:
        """Whether times help, by halves of the chosen events, each judged by the other's fits."""
        streams = self.streams
        use = np.flatnonzero(observed_values(streams, self.column) & chosen)
        if len(use) < _LEAST_JUDGED:
            return False
        half = _halves(streams.stream[use])
        lead = np.zeros(len(use))
        for k in (0, 1):
            fold = np.zeros(len(streams.time), dtype=bool)
            fold[use[half != k][:_MOST_CHOSEN]] = True
            rows = use[half == k]
            timed, plain = (self._nats(self.part(fold, timed=own), rows) for own in (True, False))
            lead[half == k] = timed - plain
        mean, error = paired_lead(lead, streams.stream[use])
        return mean > error

    def _nats(self, part: ValuePart, rows: Int64[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return part.log_probs(self.streams, self.clock)[rows]


def _halves(stream: Int64[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
    """0 or 1: every second stream, or the halves of one that is most of all."""
    distinct, code = np.unique(stream, return_inverse=True)
    if len(distinct) < _LEAST_STREAMS:
        return (np.arange(len(stream)) >= len(stream) // 2).astype(np.int64)
    return code % 2


def _fitted(
    tables: tuple[Tensor, Tensor],
    origin: Tensor,
    data: tuple[Tensor, Tensor, Tensor],
    family: Family,
) -> tuple[np.ndarray, np.ndarray]:
    common, by_item = (table.requires_grad_() for table in tables)
    inputs, code, z = data
    spread = torch.full((len(common), 1), _TIME_SPREAD, dtype=torch.float64)
    spread[:N_INPUTS] = _SPREAD
    optimizer = torch.optim.LBFGS(
        [common, by_item], max_iter=_N_STEPS, line_search_fn="strong_wolfe", tolerance_change=1e-7
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        own = torch.einsum("ni,nip->np", inputs[:, :N_INPUTS], by_item[code])
        eta = inputs @ (origin + common) + own
        held = (by_item / _ITEM_SPREAD).square().sum() + (common / spread).square().sum()
        nats = (0.5 * held - family.log_prob(z, eta).sum()) / max(1, len(z))
        nats.backward()
        return nats

    optimizer.step(loss)
    return (origin + common).detach().numpy(), by_item.detach().numpy()
