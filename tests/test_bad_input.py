"""Mistakes in data and parameters: one clear error each, before any work is done."""

import numpy as np
import pandas as pd
import pytest

from estimator_cases import COLUMNS, KINDS, fitted_on, make, ratings
from exfam import DataError, ExfamError, Groups, SupportError
from exfam.estimator.evaluate import chosen_levels
from exfam.families import Binomial, Categorical, Gamma, Poisson

FRAME = ratings(least=2)


def with_star(row, value):
    return FRAME.assign(stars=np.where(np.arange(len(FRAME)) == row, value, FRAME["stars"]))


def model(kind, **more):
    return fitted_on(FRAME, kind, noise=0.3, **more)


NONE, BOTH = {"item": None, "value": None}, {"parts": "both"}
REPEATS, GAPS = FRAME.assign(movie="a"), FRAME.assign(stars=np.nan)
MISTAKES = [
    ({}, FRAME.drop(columns="movie"), "`item` must name a column .* 'movie'"),
    ({"group": None}, FRAME, "`group` must name the column of groups"),
    ({}, FRAME.assign(stars="many"), "`value` must be numeric, got 'many' at row"),
    ({"parts": "values"}, GAPS, "`stars` must have at least one observed value, got none"),
    (NONE, FRAME, "`item` or `value` must be given, got data with neither"),
    (BOTH | {"item": None}, FRAME, "`item` must be given for parts='both'"),
    (BOTH | {"value": None}, FRAME, "`value` must be given for parts='both'"),
    ({"support": "hard"}, REPEATS, "not repeat in a group .* got 'a' again in group 'u.*' at r"),
]
# What the rules of parameters do not know; these have tests of their own.
WRONG = [
    ("family", "binomial", "be an instance where it has arguments .* got 'binomial'.*Binom"),
    ("family", {"stars": "poison"}, "be one of .* got 'poison'"),
    ("family", {"star": "poisson"}, "name a family for every value column.* for 'stars'"),
    ("family", {"stars": "gaussian", "x": "poisson"}, "name value columns .* got 'x'"),
    ("conditional", "two_stream", "be one that serves this network"),
    ("value_embedding", "table", "not be 'table' for family 'gaussian'"),
    ("value_embedding", "raw", "be 'concatenate' with value_embedding='raw'"),
    ("device", "gpu", "be one that torch finds on this machine, got 'gpu'"),
    ("known", "gap", "be among `attributes`, got 'gap'"),
]
TRAINING = "batch_size batch_tokens max_epochs patience ensemble"
SIZES = "n_heads head_dim embed_dim n_layers dim"
POSITIVE = "learning_rate clip score_scale smoothing k item_prior"
# Parameters that have the same range, a value outside it, and what the error says.
RANGES = {
    f"{TRAINING} {SIZES}": (0, "be an integer >= 1, got 0"),
    "feed_forward_dim head_hidden_dim seed": (-1, "be an integer >= 0, got -1"),
    POSITIVE: (0.0, "be a number > 0, got 0.0"),
    "weight_decay": (-1.0, "be a number >= 0, got -1.0"),
    "warmup dropout validation_fraction": (1.0, r"be a number in \[0, 1\), got 1.0"),
}
WRONG += [
    (name, value, words) for names, (value, words) in RANGES.items() for name in names.split()
]


class TestBadInput:
    @pytest.mark.parametrize(("parameters", "frame", "match"), MISTAKES)
    def test_one_clear_error(self, parameters, frame, match):
        kinds = [k for k in ("efa", "marginal") if parameters.keys() <= make(k).get_params().keys()]
        assert kinds
        for kind in kinds:
            with pytest.raises(ExfamError, match=match):
                make(kind, **parameters).fit(frame)

    @pytest.mark.parametrize(("name", "value", "match"), WRONG)
    def test_wrong_parameters(self, name, value, match):
        kinds = [kind for kind in KINDS if name in make(kind).get_params()]
        assert kinds
        for kind in kinds:
            with pytest.raises(ExfamError, match=f"must {match}"):
                make(kind).set_params(**{name: value}).fit(FRAME)

    def test_no_estimator_takes_a_penalty_that_it_cannot_learn(self):
        with pytest.raises(ExfamError, match="`support` must be one of 'auto', 'hard', 'none'"):
            make("marginal", support="penalty").fit(FRAME)

    def test_shrunk_offsets_need_a_family_that_its_mean_determines(self):
        with pytest.raises(ExfamError, match="mean"):
            make("shrunk-offset", family=Categorical(5, start=1)).fit(FRAME)

    def test_value_outside_its_support(self):
        frame = with_star(7, 9.0)
        match = "`stars` must be .*, got 9 at row 7 \\(1 of .* rows\\)"
        for kind in KINDS:
            with pytest.raises(SupportError, match=match):
                make(kind, family=Binomial(5)).fit(frame)
            with pytest.raises(SupportError, match=match):
                make(kind, family=Binomial(5)).fit(FRAME).score(frame)

    def test_values_whose_squares_are_no_numbers(self):
        for family, value in ((Poisson(), 1e60), ("gaussian", 1e160)):
            frame = with_star(3, value)
            match = "`stars` must be .* at row 3 .*Scale the column: continuous values may be"
            with pytest.raises(SupportError, match=match):
                make("efa", family=family).fit(frame)

    def test_values_that_single_precision_cannot_hold(self):
        for family, value in ((Gamma(), 1e-60), ("gaussian", 1e60)):
            frame = with_star(3, value)
            assert np.isfinite(make("efa", family=family).fit(frame).log_prob(frame)).all()

    def test_repeats_at_score_time_after_hard_support(self):
        estimator = model("efa")
        assert estimator.support_ == "hard"
        again = pd.concat([FRAME, FRAME[:1]])
        user, movie = FRAME.iloc[0][["user", "movie"]]
        match = f"got '{movie}' again in group '{user}' at rows \\[0, {len(FRAME)}\\]. Fit with sup"
        for call in (estimator.score, estimator.predict, estimator.recommend):
            with pytest.raises(ExfamError, match=match):
                call(again)

    def test_validation_that_repeats_makes_support_soft(self):
        again = pd.concat([FRAME, FRAME[:1]])
        assert make("efa").fit(FRAME, validation=again).support_ == "none"
        with pytest.raises(ExfamError, match="must not repeat in a group with support='hard'"):
            make("efa", support="hard").fit(FRAME, validation=again)

    @pytest.mark.parametrize(
        "weight",
        [[1.0, 2.0], np.full(len(FRAME), -1.0), np.full(len(FRAME), 1e308), np.ones((2, 2)), 3.0],
    )
    def test_weights(self, weight):
        match = f"`sample_weight` must be {len(FRAME)} numbers from 0 to 1e.30"
        with pytest.raises(ExfamError, match=match):
            make("marginal").fit(FRAME, sample_weight=weight)
        with pytest.raises(ExfamError, match=match):
            model("marginal").score(FRAME, sample_weight=weight)
        with pytest.raises(ExfamError, match="`sample_weight` must be numbers, got"):
            make("marginal").fit(FRAME, sample_weight=["a"] * len(FRAME))
        with pytest.raises(ExfamError, match="`sample_weight` must be numbers, got int too large"):
            make("marginal").fit(FRAME, sample_weight=[10**400] * len(FRAME))

    def test_groups_without_targets(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        hidden = groups.with_(role=np.ones(groups.n_rows, dtype=np.int8))
        with pytest.raises(ExfamError, match="`X` must hold a target element of positive weight"):
            make("marginal").fit(hidden)
        with pytest.raises(ExfamError, match="`X` must hold at least one target"):
            model("marginal").score(hidden)
        with pytest.raises(ExfamError, match="`X` must hold a target element"):
            make("marginal").fit(Groups(start=[], stop=[], item=np.zeros(0, np.int32)))

    def test_columns_that_the_model_needs_at_predict_time(self):
        with pytest.raises(DataError, match="`value` must name a column of the frame, got 'stars'"):
            model("efa").score(FRAME.drop(columns="stars"))
        groups = Groups.from_frame(FRAME, group="user", item="movie")
        with pytest.raises(ExfamError, match="`value` column 'stars' must be in the groups"):
            model("efa").score(groups)


@pytest.mark.parametrize(
    ("name", "wrong", "rule"),
    [
        ("quantiles", ["a"], "a number strictly between 0 and 1"),
        ("quantiles", ([1, 2], 0.5), "a number strictly between 0 and 1"),
        ("quantiles", [np.complex64(0.5)], "a number strictly between 0 and 1"),
        ("quantiles", [[0.5]], "a number strictly between 0 and 1"),
        ("quantiles", [0.5, 1.0], "a number strictly between 0 and 1"),
        ("interval", 0.0, "a number strictly between 0 and 1"),
        *(("quantiles", wrong, "a list of levels") for wrong in (0.5, "0.5", {}, {0.5}, [])),
        *(("quantiles", wrong, "a list of levels") for wrong in (np.array(0.5), iter([0.5]))),
    ],
)
def test_levels(name, wrong, rule):
    with pytest.raises(ExfamError, match=f"`{name}` must be {rule}, got "):
        chosen_levels(**{"quantiles": None, "interval": None, name: wrong})
    with pytest.raises(ExfamError, match="must not both be given"):
        model("marginal").predict(FRAME, quantiles=[0.5], interval=0.5)
