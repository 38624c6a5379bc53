"""Numbers that predict failures are found, those that do not are not."""

import numpy as np
import pytest
import scipy.stats
from sklearn.metrics import roc_auc_score

from exfam.checks import DataError, ExfamError
from exfam_studies.experts.paraphrases import TERMS, AnalogyErrors, failure_predictors


def drawn(n=400, seed=0):
    """Errors whose second term makes questions fail, and all others are noise."""
    random = np.random.default_rng(seed)
    terms = random.standard_normal((n, len(TERMS), 3))
    size = np.linalg.norm(terms[:, 1], axis=1)
    answered = size + random.standard_normal(n) < 1.7
    ones = np.ones(n)
    errors = AnalogyErrors(
        question=np.arange(n) * 2,
        categories=tuple(random.choice(["x", "y", "z"], size=n).tolist()),
        pair=random.integers(60, size=n),
        gap=terms.sum(axis=1),
        terms=terms,
        answer=ones,
        delta=ones,
        seen=ones,
        seen_star=ones,
        log_frequency=np.round(random.standard_normal(n)),
    )
    # Flags of all questions, of which every second was left out.
    return errors, np.repeat(answered, 2)


def test_figures_are_those_of_scikit_learn_and_scipy():
    errors, answered = drawn()
    failed = ~answered[::2]
    result = {each.name: each for each in failure_predictors(errors, answered, seed=0, n=20)}
    assert list(result) == ["gap", *TERMS, "statistics", "rarity"]
    numbers = {"gap": errors.gap_norm, "Delta": errors.norms[:, 1], "rarity": -errors.log_frequency}
    for name, number in numbers.items():
        assert result[name].auc.mean == pytest.approx(roc_auc_score(failed, number))
        assert result[name].correlation.mean == pytest.approx(
            scipy.stats.pointbiserialr(failed, number).statistic
        )


def test_within_relations_only_their_own_questions_are_compared():
    errors, answered = drawn()
    failed, categories = ~answered[::2], np.array(errors.categories)
    won = pairs = 0.0
    for each in "xyz":
        own = categories == each
        of = failed[own].sum() * (~failed[own]).sum()
        won += of * roc_auc_score(failed[own], errors.norms[own, 1])
        pairs += of
    result = failure_predictors(errors, answered, seed=0, n=20)[2]
    assert result.auc_within.mean == pytest.approx(won / pairs) != result.auc.mean


def test_the_term_that_matters_is_found_and_the_others_are_not():
    result = {each.name: each for each in failure_predictors(*drawn(seed=3), seed=1, n=300)}
    assert result["Delta"].auc.low > 0.6 and result["Delta"].correlation.low > 0.2
    for name in ("rho", "delta", "rarity"):
        assert result[name].auc.low < 0.5 < result[name].auc.high
        assert result[name].correlation.low < 0 < result[name].correlation.high


def test_intervals_are_those_of_redrawn_pairs():
    """Copies of each question, of the same pair, say nothing new."""
    errors, answered = drawn(n=120)
    many = AnalogyErrors(
        **{
            name: np.repeat(value, 5, axis=0)
            for name, value in vars(errors).items()
            if name not in ("question", "categories", "pair")
        },
        question=np.arange(600),
        categories=tuple(np.repeat(errors.categories, 5)),
        pair=np.repeat(np.arange(120), 5),
    )
    one = failure_predictors(
        AnalogyErrors(**{**vars(errors), "pair": np.arange(120)}), answered, seed=0, n=200
    )[2]
    five = failure_predictors(many, np.repeat(answered[::2], 5), seed=0, n=200)[2]
    assert five.auc == pytest.approx(one.auc) and one.auc.low < one.auc.mean < one.auc.high


def test_a_term_that_is_rounding_tells_nothing():
    errors, answered = drawn()
    terms = errors.terms.copy()
    terms[:, 3] *= 1e-15
    result = failure_predictors(
        AnalogyErrors(**{**vars(errors), "terms": terms}), answered, seed=0, n=20
    )[4]
    assert result.name == "residual" and result.auc == (0.5, 0.5, 0.5)
    assert result.correlation == (0.0, 0.0, 0.0)


def test_one_relation_without_both_kinds_has_no_figure_within():
    errors, answered = drawn(n=40)
    categories = tuple("right" if each else "wrong" for each in answered[::2])
    split = AnalogyErrors(**{**vars(errors), "categories": categories})
    result = failure_predictors(split, answered, seed=0, n=10)[0]
    assert result.auc_within is None


def test_answers_that_are_none_are_refused():
    errors, answered = drawn(n=20)
    with pytest.raises(DataError, match="one of each given question, got 5 for question 38"):
        failure_predictors(errors, answered[:5], seed=0)
    with pytest.raises(DataError, match="right and wrong answers, got 20 right of 20"):
        failure_predictors(errors, np.ones(40, dtype=bool), seed=0)
    with pytest.raises(ExfamError, match="`n` must be an integer >= 1"):
        failure_predictors(errors, answered, seed=0, n=0)
    with pytest.raises(ExfamError, match="`level` must be a number in"):
        failure_predictors(errors, answered, seed=0, level=1.0)
