"""Histograms: values on their edges, edges as users give them, their mistakes."""

import re

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from exfam.checks import ExfamError
from exfam.cli.families import family_from_words
from exfam.families import Histogram

DOUBLE = torch.float64


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=str)
def test_a_value_on_an_edge_lies_in_the_lower_bin(dtype):
    bins = Histogram((0.1, 0.2, 0.4, 0.7))
    eta = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0], dtype=dtype)
    nats = bins.log_prob(torch.tensor(bins.edges, dtype=dtype), eta)
    widths = torch.tensor([0.1, 0.1, 0.2, 0.3], dtype=dtype)
    assert_close(nats, eta.log_softmax(-1)[:-1] - widths.log())
    value = torch.tensor(bins.edges, dtype=DOUBLE).repeat_interleave(torch.tensor([4, 3, 2, 1]))
    counts = torch.tensor([4, 3, 2, 1, 0.5], dtype=DOUBLE)
    assert_close(bins.initial_eta(value), (counts / 10.5).log())


def test_edges_that_are_one_in_single_precision_have_a_finite_density():
    bins = Histogram((1.0, 1.0 + 1e-9, 2.0))
    assert bins.log_prob(torch.tensor([1.0, 1.5, 9.0]), torch.zeros(4)).isfinite().all()


def test_edges_given_as_a_list_or_whole_numbers_are_the_same():
    assert family_from_words("histogram(edges=[-1, 0.5, 3])") == Histogram((-1.0, 0.5, 3.0))
    words = {"name": "histogram", "edges": [1], "tails": [1, 2]}
    assert family_from_words(words) == Histogram((1.0,), tails=(1.0, 2.0))


@pytest.mark.parametrize(
    "edges", [(), (0.0, 0.0), (1.0, 0.0), (0.0, np.inf), (np.nan,), (-1.7e308, 1.7e308)], ids=str
)
def test_edges_increase(edges):
    message = "`edges` must be finite numbers that increase, at least one, got ("
    with pytest.raises(ExfamError, match=re.escape(message)):
        Histogram(edges, tails=(1.0, 1.0))


def test_tails_are_two_positive_numbers():
    with pytest.raises(ExfamError, match="`tails` must be given for a single edge, got 0.5"):
        Histogram((0.5,))
    with pytest.raises(ExfamError, match="`tails` must be a number > 0, got -1.0"):
        Histogram((0.5,), tails=(1.0, -1.0))
    with pytest.raises(ExfamError, match="--family` .* `tails` must be two numbers"):
        family_from_words("histogram(edges=[1, 2], tails=[1, 2, 3])")
