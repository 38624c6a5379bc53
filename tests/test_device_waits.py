"""A step of training waits for a GPU for its loss, for its gradients' norm, and for little else."""

import numpy as np
import pytest
import torch

from device_waits import counted_waits, waits_of_a_step
from every_estimator import case_of
from exfam import EFA
from exfam.estimator.registry import REGISTRY, class_of
from exfam.groups import Groups

TRAINED = [kind for kind in REGISTRY if "device" in class_of(kind)().get_params()]
# The loss and the norm.
LEAST = 2
# Kinds whose steps wait more often, and how often at most: these numbers only go down.
MORE = {
    "efa": 48,
    "latent-factor": 3,
    "field-efa": 23,
    "field-latent-factor": 9,
    "masked-table": 4,
    "masked-table-classifier": 4,
    "masked-table-regressor": 4,
    "masked-language-model": 7,
    "positional-sentence-classifier": 4,
    "sentence-classifier": 3,
    "sentence-regressor": 3,
}
TENSOR = torch.tensor([1, 0, 2])
WAITING = {
    "a number": lambda: TENSOR.sum().item(),
    "a branch": lambda: bool(TENSOR.any()),
    "a list": lambda: TENSOR.tolist(),
    "an array": lambda: np.asarray(TENSOR),
    "a copy": lambda: TENSOR.cpu(),
    "indices": lambda: TENSOR.nonzero(),
    "a mask": lambda: TENSOR[TENSOR > 0],
    "a mask that is set": lambda: TENSOR.clone().index_put_((TENSOR > 0,), TENSOR[0]),
    "distinct numbers": lambda: TENSOR.unique(),
    "repeats": lambda: TENSOR.repeat_interleave(TENSOR),
    "counts": lambda: TENSOR.bincount(),
    "a comparison": lambda: torch.equal(TENSOR, TENSOR),
}
GOING_ON = {
    "indices": lambda: TENSOR[TENSOR],
    "a choice": lambda: torch.where(TENSOR > 0, TENSOR, 0),
    "repeats of a stated size": lambda: TENSOR.repeat_interleave(TENSOR, output_size=3),
}


def histories(*, repeats: bool, n_items: int) -> Groups:
    random = np.random.default_rng(0)
    stop = np.arange(1, 301) * 30
    drawn = [random.choice(n_items, 30, replace=repeats) for _ in stop]
    labels = {"item": np.arange(n_items)}
    item = np.concatenate(drawn)
    return Groups(start=stop - 30, stop=stop, item=item, vocabulary=labels, ordered=True)


def causal(*, n_items: int) -> int:
    """Waits of a step of a causal model of histories in which items occur again."""
    model = EFA(
        direction="causal", base="none", order="rows", embed_dim=8, n_layers=1, batch_size=256,
        max_epochs=1, validation_fraction=0.0, ensemble=1, progress=False,
    )  # fmt: skip
    groups = histories(repeats=True, n_items=n_items)
    with pytest.MonkeyPatch.context() as patch:
        return sum(waits_of_a_step(lambda: model.fit(groups), patch).values())


@pytest.mark.parametrize("what", WAITING)
def test_a_wait_is_counted(what, monkeypatch):
    with counted_waits(monkeypatch) as mode:
        WAITING[what]()
    assert mode.lines


@pytest.mark.parametrize("what", GOING_ON)
def test_what_goes_on_is_not(what, monkeypatch):
    with counted_waits(monkeypatch) as mode:
        GOING_ON[what]()
    assert not mode.lines


@pytest.mark.parametrize("kind", TRAINED)
def test_a_step_waits_no_more_often_than_is_listed(kind, monkeypatch):
    case = case_of(kind)
    waits = waits_of_a_step(case.fit, monkeypatch)
    assert LEAST <= sum(waits.values()) <= MORE.get(kind, LEAST), waits


def test_waits_do_not_grow_with_the_catalog_where_items_occur_again():
    assert causal(n_items=500) == causal(n_items=10_000) <= 5
