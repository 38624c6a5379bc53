"""Attention weights by element name, and one vector a group."""

import numpy as np
import pytest

from estimator_cases import COLUMNS, DIRECTIONS, fitted_on, make, ratings
from exfam import ExfamError, Groups
from exfam.efa.explain import explain_groups, group_vectors

FRAME = ratings(least=2)
unseen_items = pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")


def fitted(direction="bidirectional", frame=FRAME, **more):
    """Random weights: hardly trained, they are made so."""
    return fitted_on(frame, "efa", noise=0.5, direction=direction, **{"max_epochs": 1, **more})


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("conditional", ["copies", "static"])
@pytest.mark.parametrize("null_token", [True, False])
@pytest.mark.parametrize("sees_mask", [True, False])
def test_rows_columns_and_names(direction, conditional, null_token, sees_mask):
    n_layers = 1 if conditional == "static" and sees_mask else 2
    tokens = {"null_token": null_token, "sees_mask": sees_mask}
    options = {"conditional": conditional, "n_layers": n_layers, **tokens}
    explanations = fitted(direction, **options).explain(FRAME)
    assert [one.group for one in explanations] == FRAME["user"].drop_duplicates().tolist()
    groups = Groups.from_frame(FRAME, **COLUMNS)
    more = ["(nothing)"] * null_token + ["(mask)"] * sees_mask
    for g, one in enumerate(explanations):
        item = groups.item[groups.start[g] : groups.stop[g]]
        assert one.centers == [groups.vocabulary["item"][code] for code in item]
        assert one.columns == one.centers + more
        assert list(one.weights) == ["items", "values"]
        n = len(one.centers)
        for weights in one.weights.values():
            assert weights.shape == (n_layers, 2, n, n + len(more)) and (weights >= 0).all()
            # An element never sees itself, nor a causal one what comes later.
            seen = np.tri(n, k=-1) if direction == "causal" else 1 - np.eye(n)
            assert not weights[..., :n][..., seen == 0].any()
            first_is_alone = not more and direction == "causal"
            rows = weights[:, :, 1:] if first_is_alone else weights
            np.testing.assert_allclose(rows.sum(-1), 1, atol=1e-5)


def test_a_group_is_explained_alike_alone_and_among_others():
    estimator = fitted()
    whole = estimator.explain(FRAME)
    alone = estimator.explain(FRAME[FRAME["user"] == whole[3].group])[0]
    np.testing.assert_allclose(alone.weights["items"], whole[3].weights["items"], atol=1e-6)


def test_table():
    one = fitted(n_layers=1).explain(FRAME)[0]
    table = one.to_dict("items")
    assert list(table) == ["layer", "head", "center", "context", "weight"]
    n = len(one.centers)
    assert len(table["weight"]) == 2 * n * (n + 1)
    where = (table["head"] == 2) & (table["center"] == one.centers[0])
    np.testing.assert_array_equal(table["weight"][where], one.weights["items"][0, 1, 0])
    assert table["context"][where].tolist() == one.columns


@pytest.mark.parametrize("part", ["items", "values"])
def test_parts_that_there_are(part):
    assert list(fitted(parts=part).explain(FRAME)[0].weights) == [part]


@unseen_items
def test_what_has_no_name_is_numbered_or_unknown():
    one = fitted(item=None).explain(FRAME)[0]
    assert one.centers == [str(number) for number in range(len(one.centers))]
    unseen = FRAME.assign(movie=FRAME["movie"].replace("b", "new"))
    explanations = fitted(unknown="unk").explain(unseen)
    assert any("(unknown)" in one.centers for one in explanations)
    gone = FRAME.assign(movie=FRAME["movie"].where(FRAME["user"] != "u2", "new"))
    explanations = fitted(unknown="ignore").explain(gone)
    empty = next(one for one in explanations if one.group == "u2")
    assert empty.centers == [] and empty.weights["items"].shape == (1, 2, 0, 1)
    groups = Groups(start=[0, 2], stop=[2, 4], item=[0, 1, 2, 0], values={"stars": np.ones(4)})
    explanations = fitted(frame=groups).explain(groups)
    assert [one.group for one in explanations] == [0, 1]
    assert explanations[0].centers == ["0", "1"]


def test_only_models_with_attention():
    groups = Groups.from_frame(FRAME, **COLUMNS)
    marginal = make("marginal").fit(groups)
    for call, last in ((explain_groups, marginal.vocabulary_), (group_vectors, marginal.schema_)):
        with pytest.raises(ExfamError, match="`explain` needs a model with attent"):
            call(marginal.members_[0], groups, last)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("parts", ["items", "values"])
def test_one_vector_a_group_whatever_the_others_and_the_roles(direction, parts):
    estimator, groups = fitted(direction, parts=parts), Groups.from_frame(FRAME, **COLUMNS)
    whole = estimator.transform(FRAME)
    assert whole.shape == (12, 8) and whole.std(0).min() > 0
    names = FRAME["user"].drop_duplicates().tolist()
    for user in ("u1", "u6"):
        alone = estimator.transform(FRAME[FRAME["user"] == user])
        np.testing.assert_allclose(alone[0], whole[names.index(user)], rtol=1e-4, atol=1e-5)
    role = np.ones(groups.n_rows, dtype=np.int8)
    with_roles = estimator.transform(groups.with_(role=role))
    np.testing.assert_array_equal(with_roles, estimator.transform(groups))
    if parts == "values":
        one = groups[2:3].compact()
        state = estimator.members_[0].value_part.hidden(one.pad([0])).state[0].detach().numpy()
        np.testing.assert_allclose(estimator.transform(one)[0], state.mean(0), rtol=1e-5)
