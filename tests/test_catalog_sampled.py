"""Sampled softmax: unbiased normalizers, exact where all items are drawn, close where many are."""

import numpy as np
import pytest
import torch

from catalog_cases import (
    N_ITEMS,
    SUPPORTS,
    dense_log_probs,
    generator,
    make_choice,
    tensors,
    with_tensors,
)
from estimator_cases import TRAINED, make, ratings, same_bits
from exfam import ExfamError, load
from exfam.catalog.linear import LinearEta
from exfam.catalog.listed import OnePerRow
from exfam.catalog.normalizer import ItemChoice, log_prob_of
from exfam.catalog.sampled import Drawn, ItemSampler, sampled_log_prob
from exfam.efa.networks.factor_network import LatentFactorSettings, build_latent_factor_items
from exfam.likelihoods import two_part as supports
from exfam.likelihoods.two_part import DIRECTIONS, Likelihood, TwoPartModel
from exfam.training.checkpoints import Checkpoint
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import fit
from model_cases import make_groups, whole

FREQUENCY = torch.tensor([0.4, 0.25, 0.1, 0.1, 0.05, 0.03, 0.03, 0.02, 0.02, 0.0, 0.0])
FRAME = ratings(n_users=40, n_movies=8, least=2)
every_support = pytest.mark.parametrize("support", SUPPORTS)


@pytest.fixture(autouse=True)
def own_randomness():
    """Samplers draw from torch's generator: what other tests draw does not depend on these."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield


@pytest.mark.parametrize("n", [1, 3, 6, 10])
def test_expected_numbers_are_those_drawn(n):
    sampler = ItemSampler(FREQUENCY, n=n)
    expected = sampler.expected
    assert expected.sum().item() == pytest.approx(n, rel=1e-5)
    assert (expected <= 1 + 1e-6).all() and (expected > 0).all()
    assert (expected.diff() <= 1e-6).all(), "frequent items are expected more often"
    weight = torch.zeros(300, N_ITEMS)
    for draw in weight:
        drawn = sampler()
        assert (drawn.item.diff() > 0).all()
        draw[drawn.item] = drawn.log_weight.exp()
    count = (weight * expected).sum(1)
    torch.testing.assert_close(count, torch.full_like(count, n))
    # Each item's weight is 1 on average: 4 standard errors.
    error = 4 * ((1 / expected - 1).clamp_min(0) / len(weight)).sqrt() + 1e-3
    assert ((weight.mean(0) - 1).abs() < error).all()
    certain = expected >= 1 - 1e-6
    assert certain.sum() == sampler.n_certain < n or n == 1
    torch.testing.assert_close(weight[:, certain], torch.ones(300, int(certain.sum())))


@every_support
@pytest.mark.parametrize("causal", [False, True])
def test_with_all_items_it_is_the_exact_softmax(support, causal):
    choice, item = make_choice(support=support, causal=causal)
    drawn = ItemSampler(FREQUENCY, n=N_ITEMS)()
    assert drawn.item.tolist() == list(range(N_ITEMS))
    torch.testing.assert_close(drawn.log_weight, torch.zeros(N_ITEMS))
    results = [log_prob_of(choice, item), sampled_log_prob(choice, item, drawn)]
    sums = [torch.autograd.grad(nats.sum(), tensors(choice)) for nats in results]
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(*sums, rtol=1e-5, atol=1e-5)


@every_support
def test_normalizers_are_unbiased(support):
    choice, item = make_choice(support=support)
    sampler, rows = ItemSampler(FREQUENCY, n=4), torch.arange(len(item))
    with torch.no_grad():
        own = choice.eta.dense()[rows, item]
        if choice.penalty is not None:
            own = own - choice.penalty * choice.again
        nats = [sampled_log_prob(choice, item, sampler()) for _ in range(150)]
        estimates = (own - torch.stack(nats)).exp()
        exact = (own - dense_log_probs(choice)[rows, item]).exp()
    spread = estimates.std(0)
    assert (spread > 0.01 * exact).all()
    # Four standard errors in each row.
    assert ((estimates.mean(0) - exact).abs() < 4 * spread / len(nats) ** 0.5).all()


@every_support
def test_gradients_are_those_of_differences(support):
    drawn = Drawn(torch.tensor([0, 2, 3, 8]), torch.tensor([0.0, 0.5, 1.0, 2.0]))
    choice, item = make_choice(support=support, dtype=torch.float64)

    def result(*given):
        return sampled_log_prob(with_tensors(choice, *given), item, drawn)

    assert torch.autograd.gradcheck(result, tensors(choice), fast_mode=True)


def test_a_row_that_may_choose_none_of_the_drawn_is_sure():
    eta = LinearEta(torch.ones(2, 1), torch.ones(4, 1), None, 4)
    choice = ItemChoice(eta, excluded=(OnePerRow(torch.tensor([2, -1])),))
    drawn = Drawn(torch.tensor([1, 2]), torch.zeros(2))
    nats = sampled_log_prob(choice, torch.tensor([1, 1]), drawn)
    torch.testing.assert_close(nats, torch.tensor([0.0, -np.log(2.0)]).float())


@pytest.mark.parametrize("direction", DIRECTIONS)
@every_support
def test_a_model_samples_in_training_alone(direction, support):
    settings = LatentFactorSettings(direction=direction, dim=4)
    part = build_latent_factor_items(9, settings, generator=generator())
    options = {"item_part": part, "support": supports.SUPPORTS[support](), "direction": direction}
    exact = TwoPartModel(**options)
    model = TwoPartModel(sampler=ItemSampler(torch.arange(1.0, 10.0), n=4), **options)
    batch = whole(make_groups(repeats=support != "hard"))
    expected = exact.log_prob(batch).item
    assert not torch.equal(model.train().log_prob(batch).item, model.log_prob(batch).item)
    assert torch.equal(model.eval().log_prob(batch).item, expected)
    many = torch.stack([model.train().log_prob(batch).item.detach() for _ in range(50)])
    # Log-probabilities are biased upwards, by half the variance of the normalizer's estimate.
    assert ((many.mean(0) - expected).abs() < 0.5).all()
    assert set(model.state_dict()) == set(exact.state_dict())


@pytest.mark.parametrize("kind", TRAINED)
class TestEstimators:
    def test_the_fit_approaches_the_exact_one(self, kind):
        parameters = {"value": None, "support": "none", "max_epochs": 12, "batch_size": 16}
        scores = {}
        for n in (0, 7, 1):
            estimator = make(kind, n_sampled_items=n, learning_rate=0.1, **parameters)
            scores[n] = estimator.fit(FRAME, validation=FRAME).score(FRAME)
        # Noise slows the steps down; of seven of eight items there is little.
        assert scores[0] - scores[7] < 0.75 * (scores[0] - scores[1])

    def test_same_bits_all_items_and_saving_without_the_sampler(self, kind, tmp_path):
        some, same, exact, all_items = (
            make(kind, n_sampled_items=n, max_epochs=1).fit(FRAME) for n in (3, 3, 0, 100)
        )
        assert same_bits(some, same) and same_bits(exact, all_items) and not same_bits(exact, some)
        some.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert loaded.members_[0].sampler is None and loaded.n_sampled_items == 3
        np.testing.assert_array_equal(loaded.log_prob(FRAME), some.log_prob(FRAME))


def test_numbers_that_make_no_sense():
    for n in (0, -1, 12):
        with pytest.raises(ExfamError, match=f"`n` must be from 1 to the .* 11, got {n}"):
            ItemSampler(FREQUENCY, n=n)
    with pytest.raises(ExfamError, match="`n_sampled_items` must be an integer >= 0, got -1"):
        make("efa", n_sampled_items=-1).fit(FRAME)


class PowerCut(Exception):
    pass


def test_a_fit_that_is_cut_goes_on_with_the_same_draws(tmp_path):
    """The state of torch's generator, which items are drawn from, is in the checkpoint."""
    options = {"train": make_groups(lengths=[4] * 12, seed=2), "progress": False}
    options["settings"] = TrainingSettings(batch_size=4, max_epochs=3)
    sampler = ItemSampler(torch.arange(1.0, 10.0), n=3)

    def trained(*, fails_at=None, **more):
        part = build_latent_factor_items(9, LatentFactorSettings(dim=4), generator=generator())
        model = TwoPartModel(direction="bidirectional", item_part=part, sampler=sampler)
        calls = []

        def objective(model, batch):
            calls.append(batch)
            if len(calls) == fails_at:
                raise PowerCut("the lights went out")
            return Likelihood("bidirectional")(model, batch)

        fit(model, objective=objective, **options, **more)
        return model.state_dict(), len(calls)

    whole_fit, n_calls = trained()
    checkpoint = Checkpoint(tmp_path, seconds=0.0)
    with pytest.raises(PowerCut, match="lights"):
        trained(fails_at=9, checkpoint=checkpoint)
    resumed, n_left = trained(checkpoint=checkpoint)
    # Nine steps, and three batches before and after them that show whether the fit diverged.
    assert n_left < n_calls == 15
    assert all(torch.equal(resumed[name], tensor) for name, tensor in whole_fit.items())
