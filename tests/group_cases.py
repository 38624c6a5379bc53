"""Groups with every column there is, a frame to read, and what tests compare of them."""

import datetime

import numpy as np

from exfam.groups import Groups

FRAME = {
    "user": ["zoe", "adam", "zoe", "adam", "zoe"],
    "time": [3, 1, 2, 1, 2],
    "movie": ["up", "up", "heat", "alien", "jaws"],
    "stars": [5.0, None, 3.0, 1.0, 4.0],
    "genre": ["kids", "kids", "crime", "sf", "sf"],
    "gap": [0.5, 1.5, 2.5, 3.5, 4.5],
    "age": [30, 41, 30, 41, 30],
    "member": [True, False, True, False, True],
}


def bounds(lengths):
    stop = np.cumsum(np.asarray(lengths, dtype=np.int64))
    return {"start": stop - lengths, "stop": stop}


def full_groups(lengths=(3, 0, 2, 4), *, seed=0, lags=0):
    """Groups with every column there is."""
    random = np.random.default_rng(seed)
    n, n_groups = int(sum(lengths)), len(lengths)
    columns = bounds(lengths)
    if lags:
        index = np.maximum(np.arange(n_groups)[:, None] - np.arange(lags, 0, -1), 0)
        columns["context_start"] = columns["start"][index]
        columns["context_stop"] = np.where(
            np.arange(n_groups)[:, None] > index, columns["stop"][index], columns["start"][index]
        )
    return Groups(
        **columns,
        item=random.integers(-1, 6, n),
        values={"stars": random.normal(size=n), "count": random.integers(0, 9, n)},
        attributes={"genre": random.integers(0, 2, n), "place": random.normal(size=(n, 2))},
        group_attributes={"age": random.normal(size=n_groups), "sex": np.arange(n_groups) % 2},
        position=random.normal(size=n),
        observed=np.arange(n) % 3 != 1,
        role=random.integers(0, 2, n),
        source_row=random.permutation(n),
        vocabulary={"item": np.array(list("abcdef"), dtype=object), "sex": ["f", "m"]},
        group_names=np.arange(n_groups) + 10,
        ignored=np.arange(n_groups),
    )


def seen(groups):
    """All that a model sees of each group, as plain numbers: views and copies must agree on it."""
    batches = []
    for number in range(len(groups)):
        batch = groups.pad([number])
        columns = [batch.item, batch.position, batch.present, batch.target, batch.observed]
        columns += [*batch.values.values(), *batch.attributes.values()]
        columns += [*batch.group_attributes.values()]
        batches.append([column.tolist() for column in columns if column is not None])
    return batches


def assert_same(one, other):
    """Equal as `seen`, and in the columns that no batch shows."""
    assert seen(one) == seen(other)
    for name in ("group_names", "ignored"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(
        one.source_row[one.elements()], other.source_row[other.elements()]
    )
    assert one.vocabulary.keys() == other.vocabulary.keys()
    for name, labels in one.vocabulary.items():
        np.testing.assert_array_equal(labels, other.vocabulary[name])


# The columns of FRAME.
OPTIONS = {
    "group": "user",
    "order": "time",
    "item": "movie",
    "value": "stars",
    "attributes": ["genre", "gap"],
    "group_attributes": ["age", "member"],
}


def read(frame, **changes):
    return Groups.from_frame(frame, **(OPTIONS | changes))


def day(number):
    return datetime.date(2024, 1, number)
