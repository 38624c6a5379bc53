"""What all estimators of groups have, and what only some: vectors, explanations, histories."""

import numpy as np
import pytest
import torch
from sklearn.base import clone

import exfam
from estimator_cases import COLUMNS, DIRECTIONS, KINDS, TRAINED, class_of, fitted_on, make, ratings
from exfam import ExfamError, Groups
from exfam.efa.blanks import append_blank
from exfam.efa.networks.based import network_of

FRAME = ratings(least=2)
GROUPS = Groups.from_frame(FRAME, **COLUMNS)
LEARNED = "transform fit_transform history_ histories_ item_vectors_ item_context_vectors_"
# Whose vectors are of a network; those of a base of values are its factors.
RAW = {"latent-factor": {"base": "none"}}
OF_EFA = ["explain", "explain_item", "explain_value", "position_attention", "partial_fit"]
OF_EFA += ["item_attributes_", "with_items"]
OWNERS = dict.fromkeys(OF_EFA, ("efa",)) | {"partial_fit": ("efa", "popularity")}
OWNERS |= dict.fromkeys(LEARNED.split(), TRAINED)


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_efa_has_another_estimator_has_or_says_who_does(kind):
    estimator, parameters = fitted_on(FRAME, kind), class_of("efa")().get_params()
    lacking = {name for name, owners in OWNERS.items() if kind not in owners}
    for name in {*dir(class_of("efa"))} - {*parameters}:
        # Which of scikit-learn's `set_..._request` there are depends on the methods' arguments.
        if not name.startswith("_") and hasattr(class_of("efa"), name):
            assert hasattr(estimator, name) == (name not in lacking), name
    for name in lacking:
        listed = " or ".join(class_of(owner).__name__ for owner in OWNERS[name])
        match = f"`{name}` needs {listed}, got {class_of(kind).__name__}, which has none"
        for given in (estimator, clone(estimator), class_of(kind)):
            with pytest.raises(ExfamError, match=match) as error:
                getattr(given, name)
            assert isinstance(error.value, AttributeError)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("parts", ["items", "values"])
@pytest.mark.parametrize("kind", TRAINED)
def test_the_vector_of_a_group_is_the_mean_of_its_elements_or_what_one_more_sees(
    kind, direction, parts
):
    options = {"direction": direction, "parts": parts, **RAW.get(kind, {})}
    estimator = fitted_on(FRAME, kind, noise=0.5, **options)
    vectors = estimator.transform(GROUPS)
    assert vectors.shape == (12, 4 if kind == "latent-factor" else 8) and vectors.std(0).min() > 0
    for number in range(12):
        group = GROUPS[[number]].compact()
        if kind == "efa":
            group = append_blank(group, estimator.schema_) if parts == "items" else group
            part, batch = network_of(estimator.members_[0].part(None)), group.pad([0])
            elements = part.hidden(batch).state[batch.target].detach().numpy()
        else:
            elements = estimator.item_context_vectors_[group.item]
            if parts == "values":
                family = estimator.schema_.families["stars"]
                stars = family.network_input(torch.tensor(group.values["stars"]))
                elements = elements * stars.numpy()[:, None]
        np.testing.assert_allclose(vectors[number], elements.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        estimator.transform(GROUPS[[7, 2]]), vectors[[7, 2]], rtol=1e-4, atol=1e-5
    )
    context = GROUPS.with_(role=np.ones(GROUPS.n_rows, dtype=np.int8))
    np.testing.assert_array_equal(estimator.transform(context), vectors)


def test_what_a_further_element_would_see(tmp_path):
    estimator = fitted_on(FRAME, "latent-factor", noise=0.5, mask_vector=True, support="none")
    intercept = estimator.members_[0].item_part.intercept.detach().numpy()
    eta = estimator.transform(FRAME) @ estimator.item_vectors_.T + intercept
    labels = estimator.vocabulary_["item"][eta.argmax(1)]
    np.testing.assert_array_equal(labels, estimator.recommend(FRAME, k=1).items[:, 0])
    estimator.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(FRAME), estimator.transform(FRAME))


@pytest.mark.parametrize("kind", TRAINED)
def test_no_groups_have_no_vectors_and_several_values_have_one(kind):
    frame = FRAME.assign(seen=np.arange(len(FRAME)) % 2.0)
    for parts, value in (("both", "stars"), ("values", "stars"), ("values", ["stars", "seen"])):
        estimator = make(kind, parts=parts, value=value, **RAW.get(kind, {})).fit(frame)
        groups = Groups.from_frame(frame, **COLUMNS | {"value": value})
        width = estimator.dim if kind == "latent-factor" else estimator.embed_dim
        assert estimator.transform(groups).shape == (12, width)
        assert estimator.transform(groups[:0]).shape == (0, width)
