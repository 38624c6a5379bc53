"""Mistakes in data and parameters: one clear error each, before any work is done."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from estimator_cases import COLUMNS, KINDS, WITH_ITEMS, fitted_on, make, ratings
from exfam import DataError, ExfamError, Groups, SupportError
from exfam.estimator.evaluate import chosen_levels
from exfam.families import Binomial, Gamma, Poisson

FRAME = ratings(least=2)
GROUPS = Groups.from_frame(FRAME, **COLUMNS)
NONE, BOTH = {"item": None, "value": None}, {"parts": "both"}
REPEATS, GAPS = FRAME.assign(movie="a"), FRAME.assign(stars=np.nan)
AGAIN = pd.concat([FRAME, FRAME[:1]])
ITEM_PART = "must not have the item part's name, got column '{}'. Rename"


def with_star(row, value):
    return FRAME.assign(stars=np.where(np.arange(len(FRAME)) == row, value, FRAME["stars"]))


def model(kind, **more):
    return fitted_on(FRAME, kind, noise=0.3, **more)


@pytest.mark.parametrize(
    ("parameters", "frame", "match"),
    [
        ({}, FRAME.drop(columns="movie"), "`item` must name a column .* 'movie'"),
        ({"group": None}, FRAME, "`group` must name the column of groups"),
        ({"item": "user"}, FRAME, "`item` must name another column than `group`, got 'user' for"),
        ({"value": "user"}, FRAME, "`value` must name another column than `group`, got 'user'"),
        ({}, FRAME.assign(stars="many"), "`value` must be numeric, got 'many' at row"),
        ({"parts": "values"}, GAPS, "`stars` must have at least one observed value, got none"),
        (NONE, FRAME, "`item` or `value` must be given, got data with neither"),
        (BOTH | {"item": None}, FRAME, "`item` must be given for parts='both'"),
        ({"support": "hard"}, REPEATS, "not repeat in a group .* got 'a' again in group 'u.*' at"),
        ({"family": "binomial"}, FRAME, "an instance where it has arguments .* got 'binomial'"),
        ({"family": Poisson}, FRAME, r"got the class Poisson. Pass an instance, Poisson\("),
        ({"family": {"star": "poisson"}}, FRAME, "name a family for every value column.* 'stars'"),
        ({"family": {"stars": "gaussian", "x": "poisson"}}, FRAME, "name value columns .* got 'x'"),
        ({"conditional": "two_stream"}, FRAME, "be one that serves this network"),
        ({"value_embedding": "table"}, FRAME, "not be 'table' for family 'gaussian'"),
        ({"value_embedding": "raw"}, FRAME, "be 'concatenate' with value_embedding='raw'"),
        ({"device": "gpu"}, FRAME, "be one that torch finds on this machine, got 'gpu'"),
        ({"known": "gap"}, FRAME, "be among `attributes`, got 'gap'"),
        ({"value": ["stars", "stars"]}, FRAME, "`value` must name every column once, got 'stars'"),
        ({"value": "items"}, FRAME.assign(items=1.0), "`value` " + ITEM_PART.format("items")),
    ],
)
def test_one_clear_error(parameters, frame, match):
    kinds = [k for k in ("efa", "marginal") if parameters.keys() <= make(k).get_params().keys()]
    assert kinds
    for kind in kinds:
        with pytest.raises(ExfamError, match=match):
            make(kind, **parameters).fit(frame)


def test_parameters_of_baselines():
    with pytest.raises(ExfamError, match="`support` must be one of 'auto', 'hard', 'none'"):
        make("marginal", support="penalty").fit(FRAME)


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_outside_its_support(kind):
    frame = with_star(7, 9.0)
    match = "`stars` must be .*, got 9 at row 7 \\(1 of .* rows\\)"
    with pytest.raises(SupportError, match=match):
        make(kind, family=Binomial(5)).fit(frame)
    with pytest.raises(SupportError, match=match):
        make(kind, family=Binomial(5)).fit(FRAME).score(frame)


def test_very_large_and_very_small_values():
    for family, value in ((Poisson(), 1e60), ("gaussian", 1e160)):
        match = "`stars` must be .* at row 3 .*Scale the column: continuous values may be"
        with pytest.raises(SupportError, match=match):
            make("efa", family=family).fit(with_star(3, value))
    for family, value in ((Gamma(), 1e-60), ("gaussian", 1e60)):
        frame = with_star(3, value)
        assert np.isfinite(make("efa", family=family).fit(frame).log_prob(frame)).all()


def test_repeats_where_the_fit_saw_none():
    estimator = model("efa")
    assert estimator.support_ == "hard"
    user, movie = FRAME.iloc[0][["user", "movie"]]
    match = f"got '{movie}' again in group '{user}' at rows \\[0, {len(FRAME)}\\]. Fit with sup"
    for call in (estimator.score, estimator.predict, estimator.recommend):
        with pytest.raises(ExfamError, match=match):
            call(AGAIN)
    assert make("efa").fit(FRAME, validation=AGAIN).support_ == "none"
    with pytest.raises(ExfamError, match="must not repeat in a group with support='hard'"):
        make("efa", support="hard").fit(FRAME, validation=AGAIN)


N = len(FRAME)


@pytest.mark.parametrize(
    ("weight", "rule"),
    [
        ([1.0, 2.0], f"{N} numbers from 0 to 1e.30"),
        (np.full(N, -1.0), f"{N} numbers from 0 to 1e.30"),
        (np.full(N, 1e308), f"{N} numbers from 0 to 1e.30"),
        (np.ones((2, 2)), f"{N} numbers from 0 to 1e.30"),
        (["a"] * N, "numbers, got"),
        ([10**400] * N, "numbers, got int too large"),
    ],
)
def test_weights(weight, rule):
    for call in (make("marginal").fit, model("marginal").score):
        with pytest.raises(ExfamError, match=f"`sample_weight` must be {rule}"):
            call(FRAME, sample_weight=weight)


def test_groups_without_targets_or_columns():
    hidden = GROUPS.with_(role=np.ones(GROUPS.n_rows, dtype=np.int8))
    for groups in (hidden, Groups(start=[], stop=[], item=np.zeros(0, np.int32))):
        with pytest.raises(ExfamError, match="`X` must hold a target element of positive weight"):
            make("marginal").fit(groups)
    with pytest.raises(ExfamError, match="`X` must hold at least one target"):
        model("marginal").score(hidden)
    with pytest.raises(DataError, match="`value` must name a column of the frame, got 'stars'"):
        model("efa").score(FRAME.drop(columns="stars"))
    with pytest.raises(ExfamError, match="`value` column 'stars' must be in the groups"):
        model("efa").score(Groups.from_frame(FRAME, group="user", item="movie"))


def test_the_name_of_the_item_part_is_for_values_alone_and_has_no_say():
    frame = FRAME.rename(columns={"stars": "items"})
    estimator = make("efa", value="items", parts="values").fit(frame)
    assert list(estimator.score_parts(frame)) == ["items"]
    # As a model saved when such names were still allowed.
    estimator = make("marginal").fit(GROUPS)
    score, nats = estimator.score(GROUPS), estimator.log_prob(GROUPS)
    (member,), (spec,) = estimator.members_, estimator.schema_.values
    estimator.schema_ = replace(estimator.schema_, values=(replace(spec, column="items"),))
    member.families = {"items": spec.family}
    member.log_units = {"items": member.log_units["stars"]}
    renamed = GROUPS.with_(values={"items": GROUPS.values["stars"]})
    assert estimator.score(renamed) == pytest.approx(score, rel=1e-12)
    np.testing.assert_array_equal(estimator.log_prob(renamed), nats)


@pytest.mark.parametrize("kind", WITH_ITEMS)
def test_items_have_no_quantiles(kind):
    with pytest.raises(ExfamError, match="`interval` needs a model with values, got one of items"):
        make(kind, value=None).fit(FRAME).predict(FRAME, interval=0.8)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        *(({"quantiles": wrong}, "a number strictly") for wrong in (["a"], [[0.5]], [0.5, 1.0])),
        *(({"quantiles": wrong}, "a list of levels") for wrong in (0.5, "0.5", {0.5}, [])),
        ({"interval": 0.0}, "a number strictly between 0 and 1"),
    ],
)
def test_levels(given, rule):
    (name,) = given
    with pytest.raises(ExfamError, match=f"`{name}` must be {rule}.*, got "):
        chosen_levels(**{"quantiles": None, "interval": None, **given})
    with pytest.raises(ExfamError, match="must not both be given"):
        model("marginal").predict(FRAME, quantiles=[0.5], interval=0.5)
