"""What docstrings tell of fits: item means and their prior, members and splits of an ensemble."""

import numpy as np
import pytest

import exfam
from estimator_cases import make, ratings, same_bits
from exfam import ExfamError

FRAME = ratings(least=2)


class TestItemPrior:
    @pytest.mark.parametrize("prior", [0.5, 1.0, 7.0])
    def test_item_means_are_drawn_to_the_global_one(self, prior):
        estimator = make("shrunk-offset", item_prior=prior).fit(FRAME)
        family = estimator.schema_.families["stars"]
        told = family.restore(estimator.members_[0].value_part.item_mean[:, 0])
        overall, by_movie = FRAME["stars"].mean(), FRAME.groupby("movie")["stars"]
        expected = (by_movie.sum() + prior * overall) / (by_movie.count() + prior)
        np.testing.assert_allclose(told, [*expected, overall], rtol=1e-5)

    def test_one_observation_unless_told_otherwise(self):
        one = make("shrunk-offset", item_prior=1.0).fit(FRAME)
        np.testing.assert_array_equal(
            one.log_prob(FRAME), make("shrunk-offset").fit(FRAME).log_prob(FRAME)
        )

    def test_it_matters_to_the_choice_of_k(self, monkeypatch):
        from exfam.efa import baselines

        asked = []

        def fit(*data, item_prior, **more):
            asked.append(item_prior)
            return original(*data, item_prior=item_prior, **more)

        original = baselines.fit_shrunk_offset
        monkeypatch.setattr(baselines, "fit_shrunk_offset", fit)
        make("shrunk-offset", k=None, item_prior=3.0, validation_fraction=0.3).fit(FRAME)
        assert len(asked) > 3 and set(asked) == {3.0}

    def test_it_is_saved_and_checked(self, tmp_path):
        estimator = make("shrunk-offset", item_prior=np.float64(3.0)).fit(FRAME)
        estimator.save(tmp_path / "model")
        assert exfam.load(tmp_path / "model").item_prior == 3.0
        with pytest.raises(ExfamError, match="`item_prior` must be a number > 0, got 0"):
            make("shrunk-offset", item_prior=0.0).fit(FRAME)


@pytest.mark.parametrize("kind", ["efa", "latent-factor"])
def test_members_share_the_split_and_differ_in_all_else(kind):
    whole = make(kind, ensemble=2, seed=4, validation_fraction=0.0).fit(FRAME)
    for number, seed in enumerate((4, 5)):
        alone = make(kind, seed=seed, validation_fraction=0.0).fit(FRAME)
        assert same_bits(alone, _only(whole, number))
    split = make(kind, ensemble=2, seed=4, validation_fraction=0.4).fit(FRAME)
    other = make(kind, seed=5, validation_fraction=0.4).fit(FRAME)
    assert same_bits(make(kind, seed=4, validation_fraction=0.4).fit(FRAME), _only(split, 0))
    assert not same_bits(other, _only(split, 1))


def _only(estimator, number):
    one = make(estimator.kind)
    one.members_ = estimator.members_[number : number + 1]
    return one


def test_another_order_of_rows_is_another_split():
    rows = np.random.default_rng(1).permutation(len(FRAME))
    kept = make("marginal", validation_fraction=0.5)
    one, other = kept.fit(FRAME).score(FRAME), kept.fit(FRAME.iloc[rows]).score(FRAME)
    assert one != pytest.approx(other)
    whole = make("marginal")
    assert whole.fit(FRAME).score(FRAME) == pytest.approx(
        whole.fit(FRAME.iloc[rows]).score(FRAME), rel=1e-6
    )
