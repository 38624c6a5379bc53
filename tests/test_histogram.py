"""Histograms: the density of their bins, their tails, their start, their mistakes."""

import re

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import stats
from torch.testing import assert_close

from exfam.checks import ExfamError
from exfam.cli.families import family_from_words
from exfam.families import Histogram

DOUBLE = torch.float64
EDGES = (-1.0, 0.5, 0.75, 3.0)
BINS = Histogram(EDGES)


def test_between_the_edges_it_is_that_of_scipy():
    eta = torch.tensor([-50.0, 0.3, -0.5, 1.0, -50.0], dtype=DOUBLE)
    share = eta.softmax(-1)[1:-1].numpy()
    expected = stats.rv_histogram((share, np.array(EDGES)), density=False)
    value = torch.linspace(-0.99, 2.99, 50, dtype=DOUBLE)
    assert_allclose(BINS.log_prob(value, eta), expected.logpdf(value), atol=1e-9)
    assert_allclose(BINS.cdf(value, eta), expected.cdf(value), atol=1e-9)
    assert_allclose(BINS.quantile(0.3, eta), expected.ppf(0.3), atol=1e-9)


def test_beyond_the_edges_it_falls_as_the_next_bins_are_wide():
    eta = torch.randn(5, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    log_low, log_high = eta.log_softmax(-1)[[0, -1]].tolist()
    out = torch.tensor([0.1, 1.0, 500.0], dtype=DOUBLE)
    low = log_low + stats.expon(scale=1.5).logpdf(out.numpy())
    high = log_high + stats.expon(scale=2.25).logpdf(out.numpy())
    assert_allclose(BINS.log_prob(-1 - out, eta), low)
    assert_allclose(BINS.log_prob(3 + out, eta), high)
    same = Histogram(EDGES, tails=(1.5, 2.25))
    assert torch.equal(same.log_prob(3 + out, eta), BINS.log_prob(3 + out, eta))
    other = Histogram(EDGES, tails=(1.5, 4.0))
    assert (other.log_prob(3 + out[-1:], eta) > BINS.log_prob(3 + out[-1:], eta)).all()


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


def test_a_constant_added_to_all_logits_changes_nothing():
    eta = torch.randn(9, 5, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    value = torch.linspace(-4, 6, 9, dtype=DOUBLE)
    for method in (BINS.log_prob, BINS.cdf):
        assert_close(method(value, eta + 7), method(value, eta))
    assert BINS.mean(eta).unique().numel() == 9


def test_edges_that_are_one_in_single_precision_have_a_finite_density():
    bins = Histogram((1.0, 1.0 + 1e-9, 2.0))
    nats = bins.log_prob(torch.tensor([1.0, 1.5, 9.0]), torch.zeros(4))
    assert nats.isfinite().all()


def test_edges_given_as_a_list_or_whole_numbers_are_the_same():
    assert family_from_words("histogram(edges=[-1, 0.5, 0.75, 3])") == BINS
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
