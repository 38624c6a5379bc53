import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam_studies.experts.tables.simulated import simulate_shifted_tables


def drawn(**changed):
    result = {"n_informative": 5, "noise": 0.0, "corr": 0.9, "seed": 0, **changed}
    return simulate_shifted_tables(**result)


def correlations(x):
    return np.corrcoef(x, rowvar=False)


@pytest.mark.parametrize("corr", [0.1, 0.9])
@pytest.mark.parametrize("flip", ["both", "train"])
def test_columns_are_correlated_as_told(corr, flip):
    tables = drawn(corr=corr, flip=flip, n_train=20_000, n_test=20_000).continuous
    sign = np.array([-1, -1, 1, 1, 1])
    flipped = np.outer(sign, sign)

    def law(corr, signs):
        return signs * (corr + (1 - corr) * np.eye(5))

    np.testing.assert_allclose(correlations(tables.train_x), law(corr, flipped), atol=0.03)
    of_test = flipped if flip == "both" else np.ones((5, 5))
    np.testing.assert_allclose(correlations(tables.test_x), law(1 - corr, of_test), atol=0.03)


@pytest.mark.parametrize("flip", ["both", "train"])
@pytest.mark.parametrize("n_informative", [1, 5])
def test_y_is_linear_in_the_same_columns_of_both_tables(flip, n_informative):
    tables = drawn(flip=flip, n_informative=n_informative).continuous
    assert tables.coefficients.shape == (n_informative,)
    assert ((tables.coefficients > 0) & (tables.coefficients < 10)).all()
    for x, y in ((tables.train_x, tables.train_y), (tables.test_x, tables.test_y)):
        residual = y - x[:, :n_informative] @ tables.coefficients
        assert residual.std() == pytest.approx(2, rel=0.05)
        assert abs(residual.mean()) < 0.2


def test_columns_that_generate_y_have_more_noise():
    tables = drawn(n_informative=1, noise=1.5, n_train=20_000).continuous
    variance = tables.train_x.var(axis=0)
    np.testing.assert_allclose(variance, [1 + 0.6**2] + [1 + 0.45**2] * 4, rtol=0.04)


def test_pooled_bins_are_equally_full_together_and_others_in_training():
    pooled, own = drawn(), drawn(bins="train")
    for column in range(5):
        both = np.concatenate([pooled.train_x[:, column], pooled.test_x[:, column]])
        assert (np.bincount(both) == 400).all()
        assert (np.bincount(own.train_x[:, column]) == 200).all()
    assert (np.bincount(np.concatenate([pooled.train_y, pooled.test_y])) == 400).all()
    assert (np.bincount(own.train_y) == 200).all()
    assert (np.bincount(own.test_y, minlength=10) != 200).any()
    np.testing.assert_array_equal(own.continuous.test_x, pooled.continuous.test_x)


def test_codes_rise_with_the_numbers():
    tables = drawn(noise=0.5, n_categories=4)
    order = np.argsort(tables.continuous.test_y)
    assert (np.diff(tables.test_y[order]) >= 0).all()
    assert set(np.unique(tables.train_x)) == {0, 1, 2, 3}


def test_a_seed_is_a_draw():
    np.testing.assert_array_equal(drawn(seed=3).train_x, drawn(seed=3).train_x)
    assert (drawn(seed=3).train_x != drawn(seed=4).train_x).any()


def test_arguments_out_of_range_are_refused():
    with pytest.raises(ExfamError, match="`n_informative` must be at most n_features=5, got 6"):
        drawn(n_informative=6)
    with pytest.raises(ExfamError, match="`corr` must be above 0 and below 1, got 1.0"):
        drawn(corr=1.0)
    with pytest.raises(ExfamError, match="`bins` must be one of 'pooled', 'train', got 'test'"):
        drawn(bins="test")
    with pytest.raises(ExfamError, match="`flip` must be one of"):
        drawn(flip="test")
