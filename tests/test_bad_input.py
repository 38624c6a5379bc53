"""Mistakes in data and parameters: one clear error each, before any work is done."""

import numpy as np
import pandas as pd
import pytest

from estimator_cases import COLUMNS, KINDS, fitted_on, make, ratings
from exfam import DataError, ExfamError, Groups, SupportError
from exfam.estimator.evaluate import chosen_levels
from exfam.families import Binomial, Categorical, Gamma, Poisson

FRAME = ratings(least=2)


def model(kind, **more):
    return fitted_on(FRAME, kind, noise=0.3, **more)


MISTAKES = {
    "missing column": ({}, FRAME.drop(columns="movie"), "`item` must name a column .* 'movie'"),
    "no group": ({"group": None}, FRAME, "`group` must name the column of groups"),
    "text in value": ({}, FRAME.assign(stars="many"), "`value` must be numeric, got 'many' at row"),
    "no values": (
        {"parts": "values"},
        FRAME.assign(stars=np.nan),
        "`stars` must have at least one observed value, got none",
    ),
    "nothing to model": (
        {"item": None, "value": None},
        FRAME,
        "`item` or `value` must be given, got data with neither",
    ),
    "both parts, no item": (
        {"item": None, "parts": "both"},
        FRAME,
        "`item` must be given for parts='both'",
    ),
    "both parts, no value": (
        {"value": None, "parts": "both"},
        FRAME,
        "`value` must be given for parts='both'",
    ),
    "hard support, repeats": (
        {"support": "hard"},
        FRAME.assign(movie="a"),
        "`item` must not repeat in a group with support='hard', got 'a' again in group 'u.*' at r",
    ),
}
WRONG = {
    "family": [
        ("gausian", "`family` must be one of 'bernoulli', .* got 'gausian'"),
        ("binomial", "`family` must be an instance where it has arguments .* got 'binomial'.*Bino"),
        ({"stars": "poison"}, "`family` must be one of .* got 'poison'"),
        ({"star": "poisson"}, "`family` must name a family for every value column.* for 'stars'"),
        ({"stars": "gaussian", "x": "poisson"}, "`family` must name value columns .* got 'x'"),
    ],
    "direction": [("forward", "`direction` must be one of 'causal', 'bidirectional'")],
    "encoding": [("sine", "`encoding` must be one of 'auto', 'alibi'.* got 'sine'")],
    "support": [("soft", "`support` must be one of 'auto', 'hard', 'none'")],
    "parts": [("all", "`parts` must be one of 'auto', 'both', 'items', 'values', got 'all'")],
    "unknown": [("drop", "`unknown` must be one of 'error', 'ignore', 'unk', got 'drop'")],
    "tie": [("tight", "`tie` must be one of 'none', 'reflection'")],
    "join": [("product", "`join` must be one of 'concatenate', 'sum'")],
    "attention": [("hard", "must be one of .*'softmax'.* got 'hard'")],
    "connection": [("dense", "`connection` must be one of .* got 'dense'")],
    "conditional": [
        ("fast", "`conditional` must be one of 'auto', .* got 'fast'"),
        ("two_stream", "`conditional` must be one that serves this network"),
    ],
    "value_embedding": [
        ("one-hot", "`value_embedding` must be one of"),
        ("table", "`value_embedding` must not be 'table' for family 'gaussian'"),
        ("raw", "`join` must be 'concatenate' with value_embedding='raw'"),
    ],
    "dispersion": [("each", "`dispersion` must be one of 'global', 'item', got 'each'")],
    "device": [("gpu", "`device` must be one that torch finds on this machine, got 'gpu'")],
    "known": [("gap", "`known` must be among `attributes`, got 'gap'")],
    "pooling": [("max", "`pooling` must be one of")],
}
TRAINING = "batch_size batch_tokens max_epochs patience ensemble"
SIZES = "n_heads head_dim embed_dim n_layers dim"
POSITIVE = "learning_rate clip score_scale smoothing k item_prior"
# Parameters that have the same range, a value outside it, and what the error says.
RANGES = {
    f"{TRAINING} {SIZES}": (0, "an integer >= 1, got 0"),
    "feed_forward_dim head_hidden_dim seed": (-1, "an integer >= 0, got -1"),
    POSITIVE: (0.0, "a number > 0, got 0.0"),
    "weight_decay": (-1.0, "a number >= 0, got -1.0"),
    "warmup dropout validation_fraction": (1.0, r"a number in \[0, 1\), got 1.0"),
}
WRONG_CASES = [(name, *case) for name, cases in WRONG.items() for case in cases] + [
    (name, value, f"`{name}` must be {words}")
    for names, (value, words) in RANGES.items()
    for name in names.split()
]
NEED_DATA = ("value column", "serves this", "for family", "this machine", "among `attributes`")


class TestBadInput:
    @pytest.mark.parametrize("mistake", MISTAKES)
    def test_one_clear_error(self, mistake):
        parameters, frame, match = MISTAKES[mistake]
        kinds = [k for k in ("efa", "marginal") if parameters.keys() <= make(k).get_params().keys()]
        assert kinds
        for kind in kinds:
            with pytest.raises(ExfamError, match=match):
                make(kind, **parameters).fit(frame)

    @pytest.mark.parametrize(("name", "value", "match"), WRONG_CASES)
    def test_wrong_parameters(self, name, value, match):
        kinds = [kind for kind in KINDS if name in make(kind).get_params()]
        assert kinds
        # What no data could make right is refused before data are read.
        data = FRAME if any(words in match for words in NEED_DATA) else None
        for kind in kinds:
            with pytest.raises(ExfamError, match=match):
                make(kind).set_params(**{name: value}).fit(data)

    def test_no_estimator_takes_a_penalty_that_it_cannot_learn(self):
        with pytest.raises(ExfamError, match="`support` must be one of 'auto', 'hard', 'none'"):
            make("marginal", support="penalty").fit(FRAME)

    def test_shrunk_offsets_need_a_family_that_its_mean_determines(self):
        with pytest.raises(ExfamError, match="mean"):
            make("shrunk-offset", family=Categorical(5, start=1)).fit(FRAME)

    def test_value_outside_its_support(self):
        frame = FRAME.copy()
        frame.iloc[7, frame.columns.get_loc("stars")] = 9.0
        match = "`stars` must be .*, got 9 at row 7 \\(1 of .* rows\\)"
        for kind in KINDS:
            with pytest.raises(SupportError, match=match):
                make(kind, family=Binomial(5)).fit(frame)
            with pytest.raises(SupportError, match=match):
                make(kind, family=Binomial(5)).fit(FRAME).score(frame)

    def test_values_whose_squares_are_no_numbers(self):
        for family, value in ((Poisson(), 1e60), ("gaussian", 1e160)):
            frame = FRAME.copy()
            frame.iloc[3, frame.columns.get_loc("stars")] = value
            match = "`stars` must be .* at row 3 .*Scale the column: continuous values may be"
            with pytest.raises(SupportError, match=match):
                make("efa", family=family).fit(frame)

    def test_values_that_single_precision_cannot_hold(self):
        for family, value in ((Gamma(), 1e-60), ("gaussian", 1e60)):
            frame = FRAME.copy()
            frame.iloc[3, frame.columns.get_loc("stars")] = value
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
