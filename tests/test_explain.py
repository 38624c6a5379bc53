"""Attention weights by element name, and one vector a group."""

import itertools

import numpy as np
import pytest

from estimator_cases import COLUMNS, DIRECTIONS, fitted_on, make, ratings
from exfam import ExfamError, Groups
from exfam.efa.explain import explain_groups, group_vectors

FRAME = ratings(least=2)
GROUPS = Groups.from_frame(FRAME, **COLUMNS)


def fitted(direction="bidirectional", frame=FRAME, **more):
    """Random weights: hardly trained, they are made so."""
    return fitted_on(frame, "efa", noise=0.5, direction=direction, **{"max_epochs": 1, **more})


# Any three of four options in all their combinations.
TRIPLES = [
    (DIRECTIONS[(i + j + k) % 2], ("copies", "static")[i], bool(j), bool(k))
    for i, j, k in itertools.product(range(2), repeat=3)
]


@pytest.mark.parametrize(("direction", "conditional", "null_token", "sees_mask"), TRIPLES)
def test_rows_columns_and_names(direction, conditional, null_token, sees_mask):
    n_layers = 1 if conditional == "static" and sees_mask else 2
    tokens = {"null_token": null_token, "sees_mask": sees_mask}
    options = {"conditional": conditional, "n_layers": n_layers, **tokens}
    explanations = fitted(direction, **options).explain(FRAME)
    assert [some.group for some in explanations] == GROUPS.group_names.tolist()
    more = ["(nothing)"] * null_token + ["(mask)"] * sees_mask
    for g, explanation in enumerate(explanations):
        item = GROUPS.item[GROUPS.start[g] : GROUPS.stop[g]]
        assert explanation.centers == GROUPS.vocabulary["item"][item].tolist()
        assert explanation.columns == explanation.centers + more
        assert list(explanation.weights) == ["items", "values"]
        n = len(item)
        for weights in explanation.weights.values():
            assert weights.shape == (n_layers, 2, n, n + len(more)) and (weights >= 0).all()
            # An element never sees itself, nor a causal one what comes later.
            seen = np.tri(n, k=-1) if direction == "causal" else 1 - np.eye(n)
            assert not weights[..., :n][..., seen == 0].any()
            first_is_alone = not more and direction == "causal"
            rows = weights[:, :, 1:] if first_is_alone else weights
            np.testing.assert_allclose(rows.sum(-1), 1, atol=1e-5)


def test_a_group_explained_alone_and_as_a_table():
    estimator = fitted(n_layers=1)
    among = estimator.explain(FRAME)[3]
    alone = estimator.explain(FRAME[FRAME["user"] == among.group])[0]
    np.testing.assert_allclose(alone.weights["items"], among.weights["items"], atol=1e-6)
    table, n = among.to_dict("items"), len(among.centers)
    assert list(table) == ["layer", "head", "center", "context", "weight"]
    assert len(table["weight"]) == 2 * n * (n + 1)
    where = (table["head"] == 2) & (table["center"] == among.centers[0])
    np.testing.assert_array_equal(table["weight"][where], among.weights["items"][0, 1, 0])
    assert table["context"][where].tolist() == among.columns


@pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
def test_what_has_no_name_is_numbered_or_unknown():
    numbered = fitted(item=None).explain(FRAME)[0]
    assert numbered.centers == [str(number) for number in range(len(numbered.centers))]
    gone = FRAME.assign(movie=FRAME["movie"].where(FRAME["user"] != "u2", "new"))
    for unknown, shape in (("unk", None), ("ignore", (1, 2, 0, 1))):
        explanations = fitted(unknown=unknown).explain(gone)
        other = next(some for some in explanations if some.group == "u2")
        assert set(other.centers) == ({"(unknown)"} if unknown == "unk" else set())
        assert shape in (None, other.weights["items"].shape)
    groups = Groups(start=[0, 2], stop=[2, 4], item=[0, 1, 2, 0], values={"stars": np.ones(4)})
    explanations = fitted(frame=groups).explain(groups)
    assert [some.group for some in explanations] == [0, 1]
    assert explanations[0].centers == ["0", "1"]


def test_only_models_with_attention():
    marginal = make("marginal").fit(GROUPS)
    with pytest.raises(ExfamError, match="`model` must have attention"):
        explain_groups(marginal.members_, GROUPS, marginal.vocabulary_)
    with pytest.raises(ExfamError, match="`model` must have attention"):
        group_vectors(marginal.members_[0], GROUPS, marginal.schema_)
