"""Streams of events whose rates are known."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from exfam.checks import ExfamError, check_positive


@dataclass(frozen=True, eq=False)
class SimulatedEvents:
    """Events of streams, all observed from 0 to `end`, by stream and time."""

    stream: Int64[np.ndarray, "events"]
    time: Float[np.ndarray, "events"]
    item: Int64[np.ndarray, "events"]
    end: float

    def columns(self) -> dict[str, np.ndarray]:
        """Columns of a frame: stream, time, item, begin and end."""
        n = len(self.time)
        return {
            "stream": self.stream,
            "time": self.time,
            "item": np.char.add("item ", self.item.astype(str)).astype(object),
            "begin": np.zeros(n),
            "end": np.full(n, self.end),
        }


@dataclass(frozen=True, eq=False)
class HawkesProcess:
    """Events that excite others: rate_i(t) = base_i + sum of excitation_ji decay exp(-decay age).

    `excitation`: how many events of each item an event of an item brings about itself
    """

    base: Float[np.ndarray, "items"]
    excitation: Float[np.ndarray, "items items"]
    decay: float

    def __post_init__(self) -> None:
        check_positive("decay", self.decay)
        size = float(np.abs(np.linalg.eigvals(self.excitation)).max())
        if not size < 1:
            raise ExfamError(
                f"`excitation` must have a largest eigenvalue below 1, got {size:g}: events would "
                "become ever more frequent."
            )


def simulate_hawkes(
    process: HawkesProcess, n_streams: int = 1, *, end: float = 100.0, seed: int
) -> SimulatedEvents:
    """Streams by thinning; without excitation they are Poisson processes.

    Source: Ogata (1981), On Lewis' simulation method for point processes.

    >>> process = HawkesProcess(np.array([0.5]), np.array([[0.5]]), decay=2.0)
    >>> simulate_hawkes(process, 2, end=20.0, seed=0).time.max() < 20
    np.True_
    """
    check_positive("end", end)
    random = np.random.default_rng(seed)
    columns: list[tuple[int, float, int]] = []
    for stream in range(n_streams):
        now, excited = 0.0, np.zeros(len(process.base))
        while True:
            highest = (process.base + excited).sum()
            wait = random.exponential(1 / highest) if highest > 0 else np.inf
            now += wait
            if now >= end:
                break
            excited = excited * np.exp(-process.decay * wait)
            rate = process.base + excited
            level = random.random() * highest
            if level >= rate.sum():
                continue
            item = int(np.searchsorted(rate.cumsum(), level, side="right"))
            columns.append((stream, now, item))
            excited = excited + process.decay * process.excitation[item]
    stream_, time, item_ = (
        (np.array(c) for c in zip(*columns, strict=True)) if columns else [[]] * 3
    )
    return SimulatedEvents(
        np.asarray(stream_, dtype=np.int64),
        np.asarray(time, dtype=np.float64),
        np.asarray(item_, dtype=np.int64),
        float(end),
    )
