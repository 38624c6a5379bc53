from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from exfam.checks import (
    ExfamError,
    check_choice,
    check_fraction,
    check_inside,
    check_path,
    check_positive,
    check_seed,
    check_whole,
    support_error,
    with_types,
)


def test_a_choice_lists_what_is_allowed():
    check_choice("direction", "causal", {"causal": 1})
    with pytest.raises(ExfamError, match="^`direction` must be one of 'a', 'b', got 'c'.$"):
        check_choice("direction", "c", ["a", "b"])
    with pytest.raises(ExfamError, match="got 'causl'. Did you mean 'causal'[?]$"):
        check_choice("direction", "causl", [None, "causal", "bidirectional"])


NAN = float("nan")


@pytest.mark.parametrize(
    ("check", "rule", "inside", "outside"),
    [
        (check_positive, "a number > 0", [1e-9, 10**400], [0, NAN, float("inf"), True, "3", None]),
        (partial(check_positive, zero=True), "a number >= 0", [0], [-1]),
        (check_fraction, r"a number in \[0, 1\)", [0, 0.99], [-0.1, 1, NAN, False, "0.5"]),
        (check_seed, "an integer >= 0", [2**63 - 1, np.int64(3)], [-1, 1.5, "x", None, True]),
        (check_seed, "an integer below 2.63", [0], [2**63]),
        (check_whole, "an integer >= 1", [1], [0]),
        (check_inside, "a number strictly between 0 and 1", [np.float32(0.5)], [0, 1, "a", NAN]),
    ],
)
def test_numbers_are_within_their_range(check, rule, inside, outside):
    for value in inside:
        check("dim", value)
    for value in outside:
        with pytest.raises(ExfamError, match=f"`dim` must be {rule}, got {value!r}"):
            check("dim", value)


def test_a_value_outside_the_support_is_named_with_its_row():
    where = {"support": "an integer >= 1", "row": 70, "counts": (2, 4)}
    assert str(support_error("value", np.float64(0), hint="Use Poisson.", **where)) == (
        "`value` must be an integer >= 1, got 0 at row 70 (2 of 4 rows). Use Poisson."
    )


@dataclass
class Site:
    name: str
    at: tuple[float, float]
    tags: tuple[str, ...] = ()
    n: int | None = None
    open: bool = True
    families: dict | None = None


def test_fields_are_of_the_types_declared():
    site = Site("Bonn", (50.7, 7), ("a", "b"), 3, False, {1: 2})
    assert with_types(site) is site and with_types(Site("Bonn", (0.0, 0.0)))
    wrong = [("name", None), ("at", (1.0,)), ("at", [1.0, 2.0]), ("at", (1.0, float("inf")))]
    wrong += [("at", (1.0, True)), ("tags", (1,)), ("n", 1.5), ("n", True), ("open", 1)]
    for name, value in wrong:
        with pytest.raises(TypeError, match=f"{name} of Site must be .*, got"):
            with_types(Site(**{"name": "Bonn", "at": (50.7, 7.1), name: value}))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "a path, got an empty one"),
        ("a\0", "a path of UTF-8 text without NUL, got 'a.x00'"),
        ("\ud800", "a path of UTF-8 text without NUL, got '.ud800'"),
        (b"a", "a path, got b'a' of type bytes"),
        ("a/" + "é" * 121, "a path of names of at most 240 bytes, got one of 242"),
    ],
)
def test_a_path_is_one_that_can_be_written(path, message):
    check_path("checkpoint", "é" * 120 + "/a")
    with pytest.raises(ExfamError, match=f"`checkpoint` must be {message}"):
        check_path("checkpoint", path)
