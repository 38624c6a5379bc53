"""Small streams of events, with ties, gaps in values, dates and known rates."""

import functools
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from exfam import EventEFA
from exfam.efa.events.event_attention import (
    N_MARK_NUMBERS,
    AttentionCorrection,
    AttentionSizes,
    PastAttention,
)
from exfam.efa.events.event_pace import StreamPace
from exfam.efa.events.event_values import N_INPUTS
from exfam.efa.events.time_part import scales_of
from exfam.simulators import HawkesProcess, SimulatedEvents, simulate_hawkes

PROCESS = HawkesProcess(np.array([0.4, 0.2]), np.array([[0.3, 0.2], [0.0, 0.3]]), decay=3.0)
HAWKES = {"group": "stream", "time": "time", "begin": "begin", "end": "end"}
HAWKES |= {"attention": "none", "progress": False}
COLUMNS = {"group": "patient", "time": "when", "item": "code", "value": "level", "resolution": 0.25}


def visits(n=36, *, seed=0):
    """Patients whose events share stamps, but after drugs; tests alone have a level."""
    random = np.random.default_rng(seed)
    rows = []
    for patient in range(n):
        now, level = float(random.integers(0, 40)) / 4, random.normal()
        code = "in"
        for _ in range(int(random.integers(3, 9))):
            has = code == "test"
            rows.append((f"p{patient}", now, code, level + random.normal() if has else np.nan))
            now += 0.25 * float(random.geometric(0.08 if code == "drug" else 0.6) - 1)
            code = str(random.choice(["test", "drug", "out"], p=[0.5, 0.4, 0.1]))
    return pd.DataFrame(rows, columns=["patient", "when", "code", "level"])


FRAME = visits()


@functools.cache
def fitted():
    """A model of times with ties, of items and of values."""
    return EventEFA(**COLUMNS).fit(FRAME)


@functools.cache
def attentive():
    """The same with a pace and untrained corrections of random outputs: laws hold all the same."""
    model = EventEFA(**COLUMNS).fit(FRAME)
    parts, n_items = model.event_model_, model.data_counts_["items"]
    generator = torch.Generator().manual_seed(0)
    scales = scales_of(parts.time, model._given(FRAME)[1])

    def correction(*sizes):
        network = PastAttention(AttentionSizes(n_items, 1, *sizes), generator=generator)
        with torch.no_grad():
            network.out.weight.normal_(0.0, 0.5, generator=generator)
        network.set_scales(*scales)
        return AttentionCorrection(network.eval(), 1.0)

    level = parts.values[0]
    sizes = (N_MARK_NUMBERS + N_INPUTS - 1, level.family.n_params)
    model.event_model_ = replace(
        parts,
        time=replace(
            parts.time,
            correction=correction(),
            mixture=replace(parts.time.mixture, pace=StreamPace(3.0, 0.9)),
        ),
        item=replace(parts.item, correction=correction(N_MARK_NUMBERS, n_items)),
        values=(replace(level, correction=correction(*sizes)),),
    )
    return model


@functools.cache
def excited(n_streams=12, end=60.0, seed=1):
    """Streams of a Hawkes process, as a frame."""
    return pd.DataFrame(simulate_hawkes(PROCESS, n_streams, end=end, seed=seed).columns())


def renewals(n_streams, *, shape, scale, end, seed):
    """Streams whose waits are independent, of a Weibull distribution."""
    waits = scale * np.random.default_rng(seed).weibull(
        shape, (n_streams, int(4 * end / scale) + 40)
    )
    time = waits.cumsum(1)
    assert time[:, -1].min() > end
    stream, column = np.nonzero(time < end)
    return SimulatedEvents(stream, time[stream, column], np.zeros(len(stream), dtype=int), end)
