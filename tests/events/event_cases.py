"""Small streams of events, with ties, gaps in values, dates and known rates."""

import functools

import numpy as np
import pandas as pd

from exfam import EventEFA
from exfam.simulators import HawkesProcess, simulate_hawkes

PROCESS = HawkesProcess(np.array([0.4, 0.2]), np.array([[0.3, 0.2], [0.0, 0.3]]), decay=3.0)
HAWKES = {"group": "stream", "time": "time", "begin": "begin", "end": "end"}
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
def excited(n_streams=12, end=60.0, seed=1):
    """Streams of a Hawkes process, as a frame."""
    return pd.DataFrame(simulate_hawkes(PROCESS, n_streams, end=end, seed=seed).columns())
