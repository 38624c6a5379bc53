"""precision="bfloat16": products of rounded factors in training, sums and scores in float32."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from estimator_cases import make, ratings
from every_estimator import case_of
from exfam.catalog import linear, normalizer
from exfam.catalog.linear import LinearEta
from exfam.catalog.normalizer import ItemChoice, log_prob_of
from exfam.catalog.sampled import ItemSampler, sampled_log_prob
from exfam.likelihoods import two_part
from exfam.training import precision as training_precision
from exfam.training.precision import PRECISIONS, Rounded, if_wide, rounded, slow_products
from exfam.training.progress import EpochProgress
from toy_fit import squares, toy_fit

SLOW = (
    "This processor has no instructions for products of bfloat16: precision='float32' would be "
    "faster here."
)


@pytest.fixture(autouse=True)
def everything_is_rounded(monkeypatch):
    monkeypatch.setattr(normalizer, "LEAST_ROUNDED", 1)
    monkeypatch.setattr(training_precision, "WIDE", 1)


bfloat16 = partial(torch.autocast, "cpu", dtype=torch.bfloat16)


def factors(n_rows=200, n_items=3000, dim=16, *, scale=0.5):
    source = torch.Generator().manual_seed(0)
    state, vectors = (torch.randn(n, dim, generator=source) for n in (n_rows, n_items))
    bias = scale * torch.randn(n_items, generator=source)
    item = torch.randint(0, n_items, (n_rows,), generator=source)
    parts = (state, scale * vectors, bias)
    return LinearEta(*(part.requires_grad_() for part in parts), n_items), item


def exact(eta, item):
    return log_prob_of(ItemChoice(eta), item)


def sampled(eta, item):
    sampler = ItemSampler(torch.ones(eta.n_items), n=500)
    sampler.generator = torch.Generator().manual_seed(1)
    return sampled_log_prob(ItemChoice(eta), item, sampler())


@pytest.mark.parametrize("kept", [0, 2**30])
@pytest.mark.parametrize("way", [exact, sampled])
def test_log_probs_and_gradients_are_those_of_float32_to_a_hundredth(way, kept, monkeypatch):
    monkeypatch.setattr(linear, "KEPT_BYTES", kept)
    eta, item = factors()
    weight, results = torch.rand(len(item)), []
    for enabled in (False, True):
        with bfloat16(enabled=enabled):
            nats = way(eta, item)
        assert nats.dtype == torch.float32
        gradients = torch.autograd.grad((nats * weight).sum(), eta[:3])
        results.append((nats.detach(), gradients))
    (nats, sums), (rounded_nats, rounded_sums) = results
    assert not torch.equal(nats, rounded_nats), "something is rounded"
    assert_close(rounded_nats, nats, rtol=1e-2, atol=0)
    for total, other in zip(sums, rounded_sums, strict=True):
        assert (other - total).norm() < 1e-2 * total.norm()


def test_sums_over_items_are_not_rounded():
    """Of 100,000 equal outputs a sum in bfloat16 would stop growing at 256."""
    eta, item = factors(n_rows=3, n_items=100_000, scale=0.0)
    with bfloat16():
        nats = log_prob_of(ItemChoice(eta), item)
    assert_close(nats, torch.full((3,), -float(np.log(100_000))), rtol=1e-6, atol=0)


CHOICES = [
    {"kind": "efa"},
    {"kind": "efa", "base": "none", "direction": "causal"},
    {"kind": "efa", "base": "none", "parts": "both", "n_sampled_items": 3},
    {"kind": "latent-factor", "base": "none"},
]


@pytest.mark.parametrize("large", [1, 10**9])
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_models_say_the_same_to_a_hundredth(choice, large, monkeypatch):
    monkeypatch.setattr(two_part, "LARGE_CATALOG", large)
    frame = ratings(least=2)
    model = make(**choice).fit(frame).members_[0].eval()
    groups = make(**choice).fit(frame)._inputs(frame).groups
    batch = groups.pad(np.arange(len(groups)))
    nats = model.log_prob(batch).total().detach()
    with bfloat16(), torch.no_grad():
        other = model.log_prob(batch).total()
    assert other.dtype == nats.dtype and nats.std() > 0
    assert_close(other, nats, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("kind", ["field-efa", "field-latent-factor", "masked-table-regressor"])
def test_fits_of_fields_and_tables_are_those_of_float32_to_a_hundredth(kind):
    case = case_of(kind)
    exact, other = (case.fit(precision=name) for name in PRECISIONS)
    weights = [torch.cat([p.flatten() for p in f.members_[0].parameters()]) for f in (exact, other)]
    assert not torch.equal(*weights), "something is rounded"
    assert other.score(*case.given) == pytest.approx(exact.score(*case.given), rel=1e-2)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_fits_are_of_products_that_are_rounded_in_training_alone(choice):
    frame = ratings(least=2)
    fits = {name: make(**choice, precision=name).fit(frame) for name in PRECISIONS}
    weights = [torch.cat([p.flatten() for p in f.members_[0].parameters()]) for f in fits.values()]
    assert not torch.equal(*weights)
    scores = [fit.score(frame) for fit in fits.values()]
    assert scores[1] == pytest.approx(scores[0], rel=1e-2)


def test_a_processor_rounds_neither_few_outputs_nor_short_vectors(monkeypatch):
    eta, item = factors()
    monkeypatch.setattr(normalizer, "LEAST_ROUNDED", len(item) * eta.n_items + 1)
    with bfloat16():
        nats = exact(eta, item)
        with if_wide(training_precision.WIDE, eta.state.device):
            assert torch.is_autocast_enabled("cpu")
        with if_wide(training_precision.WIDE - 1, eta.state.device):
            assert not torch.is_autocast_enabled("cpu")
    assert torch.equal(nats, exact(eta, item))


def test_an_objective_is_rounded_in_training_only():
    seen = []

    def objective(model, batch):
        seen.append((model.training, torch.is_autocast_enabled("cpu")))
        return squares(model, batch)

    assert rounded(objective, "float32") is objective
    toy_fit(objective=rounded(objective, "bfloat16"))
    assert set(seen) == {(True, True), (False, False)}


def test_a_processor_without_such_products_is_named(monkeypatch):
    here, objective = torch.device("cpu"), Rounded(squares, torch.bfloat16)
    said = []
    monkeypatch.setattr(EpochProgress, "say", lambda own, text: said.append(text))
    for capabilities, slow in (({}, True), ({"amx_bf16": True}, False)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda given=capabilities: given)
        assert bool(slow_products(objective, here)) == slow
        assert not slow_products(squares, here)
        said.clear()
        toy_fit(objective=objective)
        assert said == [SLOW] * slow
