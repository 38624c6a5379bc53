"""Attention weights by element name, and one vector a group."""

import numpy as np
import pytest

from estimator_cases import COLUMNS, DIRECTIONS, fitted_on, make, ratings
from exfam import ExfamError, Groups
from exfam.efa.explain import explain_groups, group_vectors

FRAME = ratings(least=2)


def fitted(direction="bidirectional", frame=FRAME, **more):
    """Random weights: hardly trained, they are made so."""
    return fitted_on(frame, "efa", noise=0.5, direction=direction, **{"max_epochs": 1, **more})


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("conditional", ["copies", "static"])
@pytest.mark.parametrize(
    "tokens",
    [
        {"null_token": True},
        {"null_token": False},
        {"sees_mask": True},
        {"null_token": False, "sees_mask": True},
    ],
    ids=str,
)
class TestWeights:
    def test_rows_columns_and_names(self, direction, conditional, tokens):
        settings = {"direction": direction, "conditional": conditional, "n_layers": 2, **tokens}
        if conditional == "static" and tokens.get("sees_mask"):
            settings["n_layers"] = 1
        explanations = fitted(**settings).explain(FRAME)
        assert [one.group for one in explanations] == FRAME["user"].drop_duplicates().tolist()
        groups = Groups.from_frame(FRAME, **COLUMNS)
        more = ["(nothing)"] * tokens.get("null_token", True)
        more += ["(mask)"] * tokens.get("sees_mask", False)
        for g, one in enumerate(explanations):
            item = groups.item[groups.start[g] : groups.stop[g]]
            assert one.centers == [groups.vocabulary["item"][code] for code in item]
            assert one.columns == one.centers + more
            assert list(one.weights) == ["items", "values"]
            for weights in one.weights.values():
                n = len(one.centers)
                assert weights.shape == (settings["n_layers"], 2, n, n + len(more))
                assert (weights >= 0).all()
                # An element never sees itself, nor a causal one what comes later.
                assert not weights[..., np.arange(n), np.arange(n)].any()
                assert direction != "causal" or not np.triu(weights[..., :n]).any()
                first_is_alone = not more and direction == "causal"
                rows = weights[:, :, 1:] if first_is_alone else weights
                np.testing.assert_allclose(rows.sum(-1), 1, atol=1e-5)
                if direction == "causal":
                    np.testing.assert_array_equal(weights[:, :, 0, :n], 0)


class TestExplain:
    def test_a_group_is_explained_alike_alone_and_among_others(self):
        estimator = fitted()
        whole = estimator.explain(FRAME)
        alone = estimator.explain(FRAME[FRAME["user"] == whole[3].group])[0]
        np.testing.assert_allclose(alone.weights["items"], whole[3].weights["items"], atol=1e-6)

    def test_table(self):
        one = fitted(n_layers=1).explain(FRAME)[0]
        table = one.to_dict("items")
        assert list(table) == ["layer", "head", "center", "context", "weight"]
        n = len(one.centers)
        assert len(table["weight"]) == 2 * n * (n + 1)
        where = (table["head"] == 2) & (table["center"] == one.centers[0])
        np.testing.assert_array_equal(table["weight"][where], one.weights["items"][0, 1, 0])
        assert table["context"][where].tolist() == one.columns

    def test_parts_that_there_are(self):
        assert list(fitted(parts="items").explain(FRAME)[0].weights) == ["items"]
        assert list(fitted(parts="values").explain(FRAME)[0].weights) == ["values"]

    def test_elements_without_items_have_places(self):
        one = fitted(item=None).explain(FRAME)[0]
        assert one.centers == [str(place) for place in range(len(one.centers))]

    @pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
    def test_unknown_items_are_named_so(self):
        frame = FRAME.assign(movie=FRAME["movie"].replace("b", "new"))
        explanations = fitted(unknown="unk").explain(frame)
        assert any("(unknown)" in one.centers for one in explanations)

    @pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
    def test_empty_groups(self):
        frame = FRAME.assign(movie=FRAME["movie"].where(FRAME["user"] != "u2", "new"))
        explanations = fitted(unknown="ignore").explain(frame)
        empty = next(one for one in explanations if one.group == "u2")
        assert empty.centers == [] and empty.weights["items"].shape == (1, 2, 0, 1)

    def test_unnamed_groups_are_numbered(self):
        groups = Groups(start=[0, 2], stop=[2, 4], item=[0, 1, 2, 0], values={"stars": np.ones(4)})
        explanations = fitted(frame=groups).explain(groups)
        assert [one.group for one in explanations] == [0, 1]
        assert explanations[0].centers == ["0", "1"]

    def test_only_models_with_attention(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        marginal = make("marginal").fit(groups)
        for call in (explain_groups, group_vectors):
            last = marginal.vocabulary_ if call is explain_groups else marginal.schema_
            with pytest.raises(ExfamError, match="`explain` needs a model with attent"):
                call(marginal.members_[0], groups, last)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("parts", ["items", "values"])
class TestVectors:
    def test_one_a_group_whatever_the_others(self, direction, parts):
        estimator = fitted(direction, parts=parts)
        whole = estimator.transform(FRAME)
        assert whole.shape == (12, 8) and whole.std(0).min() > 0
        names = FRAME["user"].drop_duplicates().tolist()
        for user in ("u1", "u6"):
            alone = estimator.transform(FRAME[FRAME["user"] == user])
            np.testing.assert_allclose(alone[0], whole[names.index(user)], rtol=1e-4, atol=1e-5)

    def test_roles_do_not_matter(self, direction, parts):
        estimator = fitted(direction, parts=parts)
        groups = Groups.from_frame(FRAME, **COLUMNS)
        role = np.ones(groups.n_rows, dtype=np.int8)
        np.testing.assert_array_equal(
            estimator.transform(groups.with_(role=role)), estimator.transform(groups)
        )

    def test_mean_of_the_values_states(self, direction, parts):
        estimator = fitted(direction, parts=parts)
        groups = Groups.from_frame(FRAME, **COLUMNS)[2:3].compact()
        assert np.isfinite(estimator.transform(groups)).all()
        if parts == "values":
            batch = groups.pad([0])
            state = estimator.members_[0].value_part.hidden(batch).state[0].detach().numpy()
            np.testing.assert_allclose(estimator.transform(groups)[0], state.mean(0), rtol=1e-5)
