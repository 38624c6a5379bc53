"""A small field as a frame, in which everything that may lack lacks somewhere."""

import numpy as np
import pandas as pd

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


def field_frame(seed=0):
    """4 days x 4 cities, shuffled: a cell without a row, some without a value, two of -99.

    Nome has no value at all, and neither has the third day.
    """
    random = np.random.default_rng(seed)
    rows = [(day, city, *PLACES[city]) for day in DAYS for city in PLACES]
    frame = pd.DataFrame(rows, columns=["day", "city", "lat", "lon"])
    frame["celsius"] = random.normal(10, 5, len(frame)).round(1)
    frame.loc[(frame.city == "Nome") | (frame.day == DAYS[2]), "celsius"] = np.nan
    frame.loc[(frame.city == "Nome") & frame.day.isin(DAYS[:2]), "celsius"] = -99
    frame = frame.drop(frame.index[(frame.day == DAYS[1]) & (frame.city == "Bonn")])
    return frame.sample(frac=1, random_state=1).reset_index(drop=True)


def read(frame, **changes):
    return read_field(frame, **COLUMNS | changes)


def read_facts(frame, **changes):
    return read_field_with_facts(frame, **COLUMNS | changes)


def cells(groups):
    """(time, site code, coordinates) -> value (None if not observed), for all own elements."""
    found = {}
    (value,) = groups.values.values()
    for g, time in enumerate(groups.group_attributes["time"].tolist()):
        for row in range(groups.start[g], groups.stop[g]):
            seen = groups.observed is None or groups.observed[row]
            place = tuple(groups.attributes["coordinates"][row].tolist())
            found[time, int(groups.item[row]), place] = float(value[row]) if seen else None
    return found


def assert_same_field(a, b, *, but=()):
    """Equal to the last bit in all fields of Groups."""
    for name, ours in a.__dict__.items():
        theirs = b.__dict__[name]
        if name in but:
            continue
        if isinstance(ours, dict):
            assert ours.keys() == theirs.keys(), name
            for key in ours:
                np.testing.assert_array_equal(ours[key], theirs[key], err_msg=key, strict=True)
        else:
            assert (ours is None) == (theirs is None), name
            np.testing.assert_array_equal(ours, theirs, err_msg=name)
