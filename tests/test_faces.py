"""What all estimators have, and what only some have: a vector a group, explanations, histories."""

import numpy as np
import pytest
import torch
from sklearn.base import clone

import exfam
from estimator_cases import (
    CASES,
    COLUMNS,
    DIRECTIONS,
    KINDS,
    TRAINED,
    class_of,
    fitted_on,
    make,
    ratings,
)
from exfam import ExfamError, Groups
from exfam.efa.networks.factor_network import LatentFactorItems

FRAME = ratings(least=2)
OWNERS = {
    "explain": ("efa",),
    "position_attention": ("efa",),
    "transform": TRAINED,
    "fit_transform": TRAINED,
    "history_": TRAINED,
    "histories_": TRAINED,
    "item_vectors_": TRAINED,
    "item_context_vectors_": TRAINED,
}


# scikit-learn brings it with `TransformerMixin`; it is for outputs with named columns.
OF_NONE = {"set_output"}


def public(kind):
    """Names of a class that are no parameters."""
    names = {name for name in dir(class_of(kind)) if not name.startswith("_")}
    return names - set(class_of(kind)().get_params()) - OF_NONE


@pytest.mark.parametrize(("kind", "direction"), CASES)
def test_the_same_face(kind, direction):
    """Whatever EFA has, another estimator has or says who does."""
    estimator = fitted_on(FRAME, kind, direction=direction)
    lacking = {name for name, owners in OWNERS.items() if kind not in owners}
    for name in public("efa"):
        assert hasattr(estimator, name) == (name not in lacking), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OWNERS)
def test_who_has_it_is_said(kind, name):
    estimator, owners = fitted_on(FRAME, kind), OWNERS[name]
    if kind in owners:
        assert getattr(estimator, name) is not None
        return
    listed = " or ".join(class_of(owner).__name__ for owner in owners)
    match = f"`{name}` needs {listed}, got {class_of(kind).__name__}, which has none"
    for error in (ExfamError, AttributeError):
        for given in (estimator, clone(estimator), class_of(kind)):
            with pytest.raises(error, match=match):
                getattr(given, name)
    assert class_of(kind).__name__ in repr(estimator)


def test_vectors_of_an_item_part_that_is_not_there():
    estimator = make("efa", parts="values").fit(FRAME)
    assert not hasattr(estimator, "item_vectors_")
    assert not hasattr(estimator, "item_context_vectors_")


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("parts", ["items", "values"])
class TestPooledVectors:
    def test_the_mean_of_the_group(self, direction, parts):
        estimator = fitted_on(FRAME, "latent-factor", noise=0.5, direction=direction, parts=parts)
        groups = Groups.from_frame(FRAME, **COLUMNS)
        result, alpha = estimator.transform(groups), estimator.item_context_vectors_
        assert result.shape == (12, 4) and result.std(0).min() > 0
        for group in range(12):
            own = slice(groups.start[group], groups.stop[group])
            vectors = alpha[groups.item[own]]
            if parts == "values":
                family = estimator.schema_.families["stars"]
                stars = family.network_input(torch.tensor(groups.values["stars"][own]))
                vectors = vectors * stars.numpy()[:, None]
            np.testing.assert_allclose(result[group], vectors.mean(0), rtol=1e-4, atol=1e-5)

    def test_as_many_as_groups_whatever_their_order(self, direction, parts):
        estimator = fitted_on(FRAME, "latent-factor", noise=0.5, direction=direction, parts=parts)
        groups = Groups.from_frame(FRAME, **COLUMNS)
        whole = estimator.transform(groups)
        np.testing.assert_allclose(estimator.transform(groups[[7, 2]]), whole[[7, 2]], rtol=1e-4)
        role = np.ones(groups.n_rows, dtype=np.int8)
        np.testing.assert_array_equal(estimator.transform(groups.with_(role=role)), whole)


def test_what_a_further_element_would_see(tmp_path):
    estimator = fitted_on(FRAME, "latent-factor", noise=0.5, mask_vector=True, support="none")
    (model,) = estimator.members_
    part = model.item_part
    assert isinstance(part, LatentFactorItems)
    eta = estimator.transform(FRAME) @ estimator.item_vectors_.T + part.intercept.detach().numpy()
    best = estimator.recommend(FRAME, k=1)
    labels = estimator.vocabulary_["item"]
    np.testing.assert_array_equal(labels[eta.argmax(1)], best.items[:, 0])
    estimator.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(FRAME), estimator.transform(FRAME))


@pytest.mark.parametrize("kind", TRAINED)
def test_no_groups_have_no_vectors(kind):
    groups = Groups.from_frame(FRAME, **COLUMNS)
    for parts in ("both", "values"):
        estimator = fitted_on(FRAME, kind, parts=parts)
        width = estimator.transform(groups).shape[1]
        assert estimator.transform(groups[:0]).shape == (0, width)


def test_a_vector_a_group_from_several_values():
    frame = FRAME.assign(seen=np.arange(len(FRAME)) % 2.0)
    estimator = make("latent-factor", value=["stars", "seen"], parts="values").fit(frame)
    assert estimator.transform(frame).shape == (12, 4)
