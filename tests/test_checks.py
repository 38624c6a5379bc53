from dataclasses import dataclass

import numpy as np
import pytest

from exfam import checks
from exfam.checks import (
    ExfamError,
    check_choice,
    check_fraction,
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


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "3", None])
def test_a_positive_number_is_above_zero_and_finite(value):
    check_positive("rate", 1e-9)
    check_positive("rate", np.int64(3))
    check_positive("rate", 10**400)
    with pytest.raises(ExfamError, match=f"`rate` must be a number > 0, got {value!r}."):
        check_positive("rate", value)


def test_zero_may_be_allowed():
    check_positive("decay", 0, zero=True)
    with pytest.raises(ExfamError, match="`decay` must be a number >= 0, got -1."):
        check_positive("decay", -1, zero=True)


@pytest.mark.parametrize("value", [-0.1, 1, 1.5, float("nan"), False, "0.5"])
def test_a_fraction_is_below_one(value):
    check_fraction("dropout", 0)
    check_fraction("dropout", 0.99)
    with pytest.raises(ExfamError, match=rf"`dropout` must be a number in \[0, 1\), got {value!r}"):
        check_fraction("dropout", value)


def test_a_seed_is_what_generators_take():
    check_seed("seed", 2**63 - 1)
    check_seed("seed", np.int64(3))
    for wrong in (-1, 1.5, "x", None, True):
        with pytest.raises(ExfamError, match="`seed` must be an integer >= 0, got"):
            check_seed("seed", wrong)
    with pytest.raises(ExfamError, match="`seed` must be an integer below 2.63, got 922337"):
        check_seed("seed", 2**63)


def test_a_whole_number_is_one_that_64_bits_hold():
    check_whole("dim", 2**63 - 1)
    with pytest.raises(ExfamError, match="`dim` must be an integer below 2.63, got 922337"):
        check_whole("dim", 2**63)


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
