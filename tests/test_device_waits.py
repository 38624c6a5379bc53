"""A step of training waits for a GPU for nothing, or for little."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from device_waits import counted_waits, waits_of_a_step
from every_estimator import case_of
from exfam import EFA
from exfam.catalog.listed import ContextTable
from exfam.estimator.registry import REGISTRY, class_of
from exfam.groups import Groups
from exfam.likelihoods import two_part

TRAINED = [kind for kind in REGISTRY if "device" in class_of(kind)().get_params()]
# Kinds whose steps wait, and how often at most: these numbers only go down.
WAITS = {
    "efa": 40,
    "field-efa": 20,
    "field-latent-factor": 6,
    "masked-language-model": 1,
    "positional-sentence-classifier": 1,
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


def causal(**parameters: Any) -> Counter[str]:
    """Waits of a step of a causal model of histories; items occur again where they may."""
    model = EFA(
        direction="causal", base="none", order="rows", embed_dim=8, n_layers=1, batch_size=256,
        max_epochs=1, validation_fraction=0.0, ensemble=1, progress=False, **parameters,
    )  # fmt: skip
    groups = histories(repeats=parameters["support"] != "hard", n_items=1000)
    with pytest.MonkeyPatch.context() as patch:
        return waits_of_a_step(lambda: model.fit(groups), patch)


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
    assert sum(waits.values()) <= WAITS.get(kind, 0), waits


@pytest.mark.parametrize("support", ["none", "penalty", "hard"])
@pytest.mark.parametrize("n_sampled", [0, 100])
def test_steps_of_large_catalogs_wait_for_nothing(support, n_sampled, monkeypatch):
    monkeypatch.setattr(two_part, "context_of_rows", ContextTable.of)
    assert not causal(support=support, n_sampled_items=n_sampled)
