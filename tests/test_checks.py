from dataclasses import dataclass

import numpy as np
import pytest

from exfam import checks
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


def test_every_error_is_an_exfam_error_and_a_value_error():
    errors = [value for name, value in vars(checks).items() if name.endswith("Error")]
    assert len(errors) == 6
    assert all(issubclass(error, ExfamError) and issubclass(error, ValueError) for error in errors)


def test_a_choice_lists_what_is_allowed():
    check_choice("direction", "causal", {"causal": 1})
    with pytest.raises(ExfamError, match="^`direction` must be one of 'a', 'b', got 'c'.$"):
        check_choice("direction", "c", ["a", "b"])
    with pytest.raises(ExfamError, match="got 'causl'. Did you mean 'causal'[?]$"):
        check_choice("direction", "causl", [None, "causal", "bidirectional"])


RULES = {
    "a number > 0": (check_positive, [1e-9, np.int64(3), 10**400]),
    r"a number in \[0, 1\)": (check_fraction, [0, 0.99]),
    "an integer >= 0": (check_seed, [2**63 - 1, np.int64(3)]),
    "an integer below 2.63": (check_seed, [0]),
    "a number strictly between 0 and 1": (check_inside, [1e-9, np.float32(0.5)]),
}
OUTSIDE = {
    "a number > 0": [0, -1, float("nan"), float("inf"), True, "3", None],
    r"a number in \[0, 1\)": [-0.1, 1, 1.5, float("nan"), False, "0.5"],
    "an integer >= 0": [-1, 1.5, "x", None, True],
    "an integer below 2.63": [2**63],
    "a number strictly between 0 and 1": [0, 1, "a", float("nan")],
}


@pytest.mark.parametrize("rule", RULES)
def test_numbers_are_within_their_range(rule):
    check, right = RULES[rule]
    for value in right:
        check("dim", value)
    for value in OUTSIDE[rule]:
        with pytest.raises(ExfamError, match=f"`dim` must be {rule}, got {value!r}"):
            check("dim", value)


def test_zero_may_be_allowed():
    check_positive("decay", 0, zero=True)
    with pytest.raises(ExfamError, match="`decay` must be a number >= 0, got -1."):
        check_positive("decay", -1, zero=True)
    with pytest.raises(ExfamError, match="`dim` must be an integer >= 1, got 0"):
        check_whole("dim", 0)


def test_a_value_outside_the_support_is_named_with_its_row():
    where = {"support": "an integer >= 1", "row": 70, "counts": (2, 4)}
    assert str(support_error("value", np.float64(0), hint="Use Poisson.", **where)) == (
        "`value` must be an integer >= 1, got 0 at row 70 (2 of 4 rows). Use Poisson."
    )
    assert str(support_error("value", 0.5, **where)).endswith("got 0.5 at row 70 (2 of 4 rows).")


@dataclass
class Site:
    name: str
    at: tuple[float, float]
    tags: tuple[str, ...] = ()
    n: int | None = None
    open: bool = True
    families: dict | None = None


def test_fields_of_the_types_declared_are_as_they_are():
    site = Site("Bonn", (50.7, 7), ("a", "b"), 3, False, {1: 2})
    assert with_types(site) is site and with_types(Site("Bonn", (0.0, 0.0)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": None},
        {"at": (1.0,)},
        {"at": [1.0, 2.0]},
        {"at": (1.0, float("inf"))},
        {"at": (1.0, True)},
        {"tags": (1,)},
        {"n": 1.5},
        {"n": True},
        {"open": 1},
    ],
)
def test_fields_of_other_types_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(TypeError, match=f"{name} of Site must be .*, got"):
        with_types(Site(**{"name": "Bonn", "at": (50.7, 7.1), **wrong}))


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
