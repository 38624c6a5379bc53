"""The leak law of estimators, and data with fewer or stranger columns."""

import numpy as np
import pytest
import torch

from estimator_cases import (
    COLUMNS,
    DIRECTIONS,
    KINDS,
    WITH_ITEMS,
    fitted_on,
    make,
    random_weights,
    ratings,
)
from exfam import ExfamError, Groups, Marginal

FRAME = ratings()
WIRINGS = [
    *(("bidirectional", conditional) for conditional in ("copies", "exact", "static")),
    *(("causal", conditional) for conditional in ("copies", "two_stream", "static")),
]


@pytest.mark.parametrize("encoding", ["relative", "none", "distance"])
@pytest.mark.parametrize(("direction", "conditional"), WIRINGS)
def test_what_is_predicted_at_an_element_never_knows_it(direction, conditional, encoding):
    """The leak law of the estimator."""
    frame = ratings(n_users=4, shuffle=False, seed=2, least=3)
    network = {"direction": direction, "conditional": conditional, "encoding": encoding}
    columns = {"order": "rows", "attributes": ["genre", "gap"], "known": ["gap"]}
    fit = {"noise": 0.5, "support": "none", "item_sees_values": True, "max_epochs": 1}
    # A base has laws of its own; a gate might close on what is tried here.
    fit |= {"base": "none"}
    estimator = fitted_on(frame, "efa", **network, **columns, **fit)

    def moved(call, column, value):
        """Which rows of the answer move when one cell of row 1 does."""
        other = frame.copy()
        assert other.loc[1, column] != value
        other.loc[1, column] = value
        return np.abs(call(other) - call(frame)).reshape(len(other), -1).max(1) > 1e-5

    movie = next(m for m in "abcdef" if m != frame.loc[1, "movie"])
    genre = "y" if frame.loc[1, "genre"] == "x" else "x"
    items, values = estimator.predict_proba, estimator.predict
    seen = [False, False, True] if direction == "causal" else [True, False, True]
    # Items: blind for their own row, in all but `known` attributes; values: for their own alone.
    for call, column, value, expected in (
        (items, "movie", movie, seen),
        (items, "stars", 7.5, seen),
        (items, "genre", genre, seen),
        (items, "gap", 3.0, [seen[0], True, True]),
        (values, "stars", 7.5, seen),
        (values, "movie", movie, [seen[0], True, True]),
    ):
        rows = moved(call, column, value)
        assert rows[:3].tolist() == expected, column
        assert not rows[(frame["user"] != "u0").to_numpy()].any()  # nobody sees another group


@pytest.mark.parametrize("kind", KINDS)
def test_groups_of_one_element_and_groups_without_observed_values(kind):
    single = FRAME.drop_duplicates("user")
    estimator = make(kind).fit(single)
    assert np.isfinite(estimator.log_prob(single)).all()
    assert np.isfinite(estimator.log_prob(FRAME)).all()
    gaps = FRAME.copy()
    gaps.loc[gaps["user"].isin(["u1", "u4", "u5", "u6"]), "stars"] = np.nan
    estimator = make(kind, parts="values") if kind in WITH_ITEMS else make(kind)
    estimator.fit(gaps)
    assert np.isfinite(estimator.predict(gaps)).all()
    assert np.isfinite(estimator.score(gaps))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_values_without_items(kind, direction):
    only = {"dim": 0} if kind == "latent-factor" else {}
    estimator = make(kind, item=None, direction=direction, **only).fit(FRAME)
    assert np.isfinite(estimator.log_prob(FRAME)).all()
    assert estimator.score_parts(FRAME).keys() == {"stars"}
    with pytest.raises(ExfamError, match="must have an item part"):
        estimator.recommend(FRAME)
    with pytest.raises(ExfamError, match="must come from a model with an item part"):
        estimator.complements("a")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_groups_with_context_ranges(direction):
    groups = Groups(
        start=[0, 2, 4],
        stop=[2, 4, 6],
        context_start=[[0], [0], [2]],
        context_stop=[[0], [2], [4]],
        item=np.arange(6),
        values={"stars": np.arange(6.0)},
    )
    estimator = random_weights(make("efa", direction=direction).fit(groups))
    assert np.isfinite(estimator.log_prob(groups)).all()
    changed = groups.with_(values={"stars": np.array([9.0, 1, 2, 3, 4, 5])})
    moved = estimator.predict(changed) != estimator.predict(groups)
    assert moved[2:4].all() and not moved[4:].any()


def test_groups_drawn_with_replacement():
    groups = Groups.from_frame(FRAME, **COLUMNS)
    estimator = make("efa").fit(groups)
    drawn, whole = groups[[0, 0, 3]], estimator.log_prob(groups)
    np.testing.assert_allclose(estimator.log_prob(drawn), whole[drawn.elements()], rtol=1e-5)
    assert np.isfinite(make("efa").fit(drawn).score(groups))


def test_positions_of_two_columns():
    frame = FRAME.assign(x=FRAME["gap"], y=FRAME["age"])
    estimator = make("efa", position=["x", "y"], encoding="distance").fit(frame)
    assert np.isfinite(estimator.log_prob(frame)).all()
    assert len(estimator.recommend(frame).groups) == 12


def test_learned_positions_leave_room_for_a_next_element():
    day = FRAME["day"].astype(int)
    for columns in ({}, *({"position": name, "order": name} for name in ("day", "even"))):
        frame = FRAME.assign(day=day, even=2 * day)
        estimator = make("efa", encoding="learned", direction="causal", **columns).fit(frame)
        assert len(estimator.recommend(frame).groups) == 12
        assert len(estimator.transform(frame)) == 12
    groups = Groups.from_frame(FRAME, **COLUMNS)
    estimator = make("efa", encoding="learned", direction="causal").fit(groups)
    estimator.sample(groups, steps=1)
    with pytest.raises(ExfamError, match=r"sample fewer elements \(\d a group at most"):
        estimator.sample(groups, steps=2)
    times = FRAME.assign(day=day + 10**9)
    with pytest.raises(ExfamError, match="`position` must be below 1,000,000 for encoding='l"):
        make("efa", encoding="learned", position="day").fit(times)


def test_group_attributes_enter():
    network = {"group_attributes": "age", "head_hidden_dim": 0, "base": "none"}
    estimator = random_weights(make("efa", **network).fit(FRAME))
    older = FRAME.assign(age=FRAME["age"] + 5)
    for call in (estimator.predict, estimator.predict_proba):
        assert (np.abs(call(older) - call(FRAME)).reshape(len(FRAME), -1).max(1) > 1e-4).all()


def test_vectors_of_items():
    tied = make("efa", tie="reflection").fit(FRAME)
    signs = tied.item_vectors_ / tied.item_context_vectors_
    np.testing.assert_allclose(signs, np.tile([1, 1, 1, 1, -1, -1, -1, -1], (6, 1)))
    assert make("latent-factor", parts="values").fit(FRAME).item_vectors_.shape == (6, 4)
    values = make("efa", parts="values").fit(FRAME)
    assert not hasattr(values, "item_vectors_") and not hasattr(values, "item_context_vectors_")
    with pytest.raises(ExfamError, match="`item` part must be fitted"):
        _ = values.item_vectors_


def test_an_impossible_item_scores_minus_infinity():
    """A frequency of zero is reported as such, not as a very large number."""
    frame = {"user": [1, 1, 2, 2], "movie": ["a", "b", "a", "b"]}
    model = Marginal(group="user", item="movie", support="none").fit(frame)
    model.members_[0].item_part.log_frequency = torch.tensor([0.0, -np.inf])
    assert model.score(frame) == -np.inf
    assert model.score(frame, sample_weight=[1, 0, 1, 0]) == 0.0
