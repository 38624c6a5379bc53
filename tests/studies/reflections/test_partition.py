"""Partition functions against their sums, and of models whose truth is known."""

import numpy as np
import pytest

from exfam.checks import DataError
from exfam_studies.reflections import partition
from exfam_studies.reflections.partition import log_partition, partition_report
from words.simulated_words import simulate_words


@pytest.fixture
def truth():
    return simulate_words(300, dim=50, seed=0)


def test_partition_functions_are_their_sums(truth, monkeypatch):
    expected = np.log(np.exp(truth.words @ truth.context.T) @ truth.probability)
    assert np.std(expected) > 0.001
    parts = truth.words, truth.context, truth.probability
    whole = log_partition(*parts)
    np.testing.assert_allclose(whole, expected, rtol=1e-9)
    logits = truth.words @ truth.context.T
    np.testing.assert_allclose(truth.information(), logits - whole[:, None], atol=1e-12)
    monkeypatch.setattr(partition, "_LOGITS_AT_ONCE", 700)
    np.testing.assert_allclose(log_partition(*parts, n_words=5), whole[:5], rtol=1e-12)
    large = np.full((2, 1), 1e3)  # does not overflow
    np.testing.assert_allclose(log_partition(large, large, np.array([0.5, 0.5])), 1e6)


def test_the_report_sees_models_that_do_and_do_not_normalize_themselves(truth):
    report = partition_report(truth.words, truth.context, truth.probability)
    assert report.expected == 1.01
    assert report.mean == pytest.approx(1.01, abs=0.01) and report.within > 0.99
    loud = partition_report(4 * truth.words, 4 * truth.context, truth.probability)
    assert loud.within < 0.2 and loud.spread > 10 * report.spread
    shifted = partition_report(truth.words, truth.context, truth.probability, shift=np.log(5))
    assert shifted.mean == pytest.approx(5 * report.mean)


@pytest.mark.parametrize(
    ("probability", "message"),
    [
        (np.full(299, 1 / 299), "`probability` must be 300 numbers >= 0 that sum to 1, got 299"),
        (np.full(300, 1.0), "sum to 1, got 300 with sum 300"),
        (np.append(np.full(299, 2 / 299), -1.0), "with sum 1 and minimum -1"),
        (np.full(300, np.nan), "with sum nan"),
    ],
)
def test_what_is_no_probability_is_refused(truth, probability, message):
    with pytest.raises(DataError, match=message):
        partition_report(truth.words, truth.context, probability)
