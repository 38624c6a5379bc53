"""A small field as a frame, in which everything that may lack lacks somewhere."""

import numpy as np
import pandas as pd
from numpy.testing import assert_equal

from exfam.columns.dialect import Dialect
from exfam.fields.data import read_field, read_field_with_facts

COLUMNS = {
    "time": "day",
    "site": "city",
    "coordinates": ["lat", "lon"],
    "value": "celsius",
    "missing": -99,
}
PLACES = {
    "Oslo": (59.91, 10.75),
    "Bonn": (50.73, 7.1),
    "Rome": (41.89, 12.48),
    "Nome": (64.5, -165.41),
}
DAYS = ["2007-10-01", "2007-10-02", "2007-10-03", "2007-10-05"]


def field_frame():
    """4 days x 4 cities, shuffled: a cell without a row, some without a value, two of -99.

    Nome has no value at all, and neither has the third day.
    """
    rows = [(day, city, *PLACES[city]) for day in DAYS for city in PLACES]
    frame = pd.DataFrame(rows, columns=["day", "city", "lat", "lon"])
    frame["celsius"] = np.random.default_rng(0).normal(10, 5, len(frame)).round(1)
    frame.loc[(frame.city == "Nome") | (frame.day == DAYS[2]), "celsius"] = np.nan
    frame.loc[(frame.city == "Nome") & frame.day.isin(DAYS[:2]), "celsius"] = -99
    frame = frame.drop(frame.index[(frame.day == DAYS[1]) & (frame.city == "Bonn")])
    return frame.sample(frac=1, random_state=1).reset_index(drop=True)


def read(frame, **changes):
    return read_field(frame, **COLUMNS | changes)


def read_facts(frame, **changes):
    options = COLUMNS | changes
    return read_field_with_facts(frame, dialect=Dialect(missing=options.pop("missing")), **options)


def cells(groups):
    """(time, site code, coordinates) -> value (None if not observed), for all own elements."""
    content = {}
    (value,) = groups.values.values()
    for g, time in enumerate(groups.group_attributes["time"].tolist()):
        for row in range(groups.start[g], groups.stop[g]):
            seen = groups.observed is None or groups.observed[row]
            place = tuple(groups.attributes["coordinates"][row].tolist())
            content[time, int(groups.item[row]), place] = float(value[row]) if seen else None
    return content


def assert_same_field(a, b, *, but=()):
    """Equal to the last bit in all fields of Groups."""
    for name, ours in a.__dict__.items():
        if name not in but:
            assert_equal(b.__dict__[name], ours, err_msg=name)
