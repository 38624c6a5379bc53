"""For any frame, `read` gives what `Groups.from_frame` gives, or an error where that does."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import exfam
from exfam.groups import Groups
from reading.cases import FEW, assert_identical

words = st.text(st.characters(codec="utf-8") | st.sampled_from("\0ab"), max_size=3)
days = st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))
times = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1))
spans = st.timedeltas(datetime.timedelta(-999), datetime.timedelta(999))
whole = st.integers(-(2**63), 2**63 - 1)
large = st.integers(0, 2**64 - 1)
LABELS = [words, st.booleans(), whole, st.integers(-3, 3), large, st.sampled_from(["007", "7"])]
GROUPS = [*LABELS, days, times, spans, st.times()]
texts = st.sampled_from(["t9", "t10", "t1"])
ORDERS = [texts, *LABELS[1:-2], st.floats(-9, 9), days, times, spans, st.sampled_from([0.0, -0.0])]
VALUES = [
    st.none() | st.floats(-9, 9, width=32),
    st.integers(-9, 9),
    st.none() | st.integers(-9, 9),
    st.booleans(),
    st.none(),
    whole,
]
POSITIONS = [st.floats(-9, 9), st.integers(-9, 9), days, times, spans]


@st.composite
def frames(draw):
    n = draw(st.integers(1, 12))

    def column(elements, distinct=None):
        some = draw(st.lists(elements, min_size=1, max_size=distinct or n))
        drawn = draw(st.lists(st.sampled_from(some), min_size=n, max_size=n))
        # Arrow guesses signed integers where none is too large for them.
        is_large = any(type(value) is int and value >= 2**63 for value in drawn)
        return np.array(drawn, dtype=np.uint64) if is_large else drawn

    def one_of(kinds):
        return kinds[draw(st.integers(0, len(kinds) - 1))]

    user = column(one_of(GROUPS), 4)
    of_group = one_of([words, st.booleans(), st.integers(-9, 9), st.floats(-9, 9)])
    age = {label: draw(of_group) for label in dict.fromkeys(list(user))}
    return {
        "user": user,
        "time": column(one_of(ORDERS), 4),
        "movie": column(one_of(LABELS), 5),
        "stars": column(one_of(VALUES)),
        "more": column(one_of(VALUES)),
        "genre": column(one_of([words, st.booleans(), st.floats(-9, 9), st.integers(-9, 9)])),
        "site": column(one_of(POSITIONS)),
        "age": [age[label] for label in user],
    }


# Labels that differ in white space alone are pointed out.
@pytest.mark.filterwarnings("ignore:.* differ in white space alone:exfam.ExfamWarning")
@given(frame=frames(), data=st.data())
@settings(max_examples=25)
def test_generated_frames(frame, data):
    options = {
        "group": "user",
        "order": data.draw(st.sampled_from([None, "time", ["time", "step"]])),
        "item": data.draw(st.sampled_from([None, "movie"])),
        "value": data.draw(st.sampled_from([None, "stars", ["stars", "more"]])),
        "attributes": data.draw(st.sampled_from([(), "genre", ["genre", "time_of"]])),
        "group_attributes": data.draw(st.sampled_from([(), "age"])),
        "position": data.draw(st.sampled_from([None, "site", ["site", "time_of"]])),
    }
    frame["step"] = [f"{len(frame['user']) - k}-th" for k in range(len(frame["user"]))]
    frame["time_of"] = [float(k) for k in range(len(frame["user"]))]
    frame = data.draw(st.sampled_from([dict, pa.table]))(frame)
    expected = Groups.from_frame(frame, **options)
    assert_identical(exfam.read(frame, **options, **FEW, duplicates="keep"), expected)
