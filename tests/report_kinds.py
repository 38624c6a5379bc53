"""A small report of each kind of model, written once for all tests."""

import functools
import re
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from exfam import (
    Community,
    EventEFA,
    FieldGaussian,
    MaskedTable,
    MaskedTableClassifier,
    MaskedTableRegressor,
)
from exfam.report import write_report
from exfam.simulators import simulate_community, simulate_field
from report_cases import AWKWARD, full_report
from small_forests import small_forests

SCRIPT = "<script>alert(1)</script>"
FIELD = {
    "time": "time", "site": "site", "coordinates": ["latitude", "longitude"], "value": "value",
}  # fmt: skip
# Pixels that a page of 400 has for a picture.
ROOM = 368


def text_of(model, data=None, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = write_report(model, data, path=Path(folder) / "report.html", **options)
        return path.read_text(encoding="utf-8")


def cells(n=120, *, seed=0, moved=0.0):
    """Columns of every kind with awkward names and labels, caused by one hidden number."""
    random = np.random.default_rng(seed)
    hidden = random.normal(size=n) + moved
    frame = pd.DataFrame(
        {
            SCRIPT: 170 + 8 * hidden + 4 * random.normal(size=n),
            "$x_1$ {{ 7 * 7 }}": np.array(AWKWARD[:3])[np.clip(hidden + 1.5, 0, 2).astype(int)],
            "grade " + "very long " * 12: np.clip(np.round(3 + hidden), 1, 5),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n) % 300, unit="D"),
        }
    )
    return frame.mask(random.random(frame.shape) < 0.1).assign(
        tier=np.where(hidden + random.normal(size=n) > 0, "high <b>", "low & cheap"),
        price=10 + 2 * hidden + random.normal(size=n),
    )


RESPONSES = {"classifier": "tier", "regressor": "price", "joint": None}
CLASSES = {
    "classifier": MaskedTableClassifier,
    "regressor": MaskedTableRegressor,
    "joint": MaskedTable,
}


@functools.cache
@small_forests()
def table_model(kind):
    """A fitted model of a table."""
    frame, response = cells(seed=1), RESPONSES[kind]
    others = frame.drop(columns=[name for name in ("tier", "price") if name != response])
    if response is None:
        return CLASSES[kind](progress=False).fit(others)
    return CLASSES[kind](progress=False).fit(others.drop(columns=response), others[response])


def of_model(kind, frame):
    """The columns that a model of this kind has."""
    response = RESPONSES[kind]
    return frame.drop(columns=[name for name in ("tier", "price") if name != response])


@functools.cache
def field_data():
    """Training maps and later ones, of sites with awkward names."""
    frame = simulate_field(8, 70, seed=2, missing=0.1).frame.to_pandas()
    names = sorted(frame.site.unique())
    awkward = dict(zip(names, AWKWARD[:8], strict=True))
    frame = frame.assign(site=frame.site.map(awkward))
    days = sorted(frame.time.unique())
    return frame[frame.time < days[50]], frame[frame.time >= days[50]]


@functools.cache
def field_model():
    return FieldGaussian(**FIELD).fit(field_data()[0])


def stays(n=24, *, seed=0):
    """Events of streams with awkward names, of two kinds and with a value."""
    random = np.random.default_rng(seed)
    frame = {"s": np.repeat([f"{SCRIPT} {k + n * seed}" for k in range(n)], 8)}
    frame |= {"t": random.exponential(size=(n, 8)).cumsum(1).ravel()}
    frame |= {"i": random.choice(AWKWARD[:3], size=8 * n), SCRIPT: random.normal(size=8 * n)}
    return pd.DataFrame(frame)


@functools.cache
def event_model():
    return EventEFA(group="s", time="t", item="i", value=SCRIPT, progress=False).fit(stays())


def sites_and_species():
    """Two covariates and three species, one of which has an awkward name."""
    drawn = simulate_community(40, 3, seed=3)
    sites = {name: np.array(own) for name, own in drawn.columns("rainfall", "soil").items()}
    sites[SCRIPT] = sites.pop(drawn.species[0])
    return sites


@functools.cache
def report_of(kind):
    """The page of everything that a kind of model has."""
    if kind == "groups":
        return full_report()
    if kind == "field":
        train, new = field_data()
        return text_of(field_model(), new, train=train)
    if kind == "community":
        sites = sites_and_species()
        return text_of(Community(species=list(sites)[2:]).fit(sites), sites)
    if kind == "events":
        return text_of(event_model(), stays(seed=1), train=stays())
    new, train = (of_model(kind, cells(seed=seed, moved=m)) for seed, m in ((2, 0.5), (1, 0.0)))
    return text_of(table_model(kind), new, train=train)


KINDS = ("groups", "field", "community", "events", *RESPONSES)


def widest_picture(text):
    """The width in pixels below which some picture would be cut on a narrow screen."""
    drawn = re.findall(r'<div class="drawing( roomy| tight)?">(<svg [^>]*>)', text)
    widths = [
        float(re.search(r"min-width: (\d+)px", svg)[1]) for where, svg in drawn if where != " roomy"
    ]
    return max(widths, default=0.0)
