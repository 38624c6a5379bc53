"""Sampled softmax: unbiased normalizers, exact where all items are drawn, close where many are."""

import numpy as np
import pytest
import torch

from catalog_cases import N_ITEMS, dense_log_probs, generator, make_choice, tensors
from estimator_cases import TRAINED, make, ratings, same_bits
from exfam import ExfamError, load
from exfam.catalog.linear import LinearEta
from exfam.catalog.listed import OnePerRow
from exfam.catalog.normalizer import ItemChoice, log_prob_of
from exfam.catalog.sampled import Drawn, ItemSampler, sampled_log_prob
from exfam.efa.networks.factor_network import LatentFactorSettings, build_latent_factor_items
from exfam.likelihoods.support import DIRECTIONS, SUPPORTS
from exfam.likelihoods.two_part import Likelihood, TwoPartModel
from exfam.training.checkpoints import Checkpoint
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import fit
from model_cases import make_groups, whole

FREQUENCY = torch.tensor([0.4, 0.25, 0.1, 0.1, 0.05, 0.03, 0.03, 0.02, 0.02, 0.0, 0.0])
FRAME = ratings(n_users=40, n_movies=8, least=2)


@pytest.fixture(autouse=True)
def own_randomness():
    """Samplers draw from torch's generator: what other tests draw does not depend on these."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield


@pytest.mark.parametrize("n", [1, 3, 6, 10])
def test_expected_numbers_are_those_drawn(n):
    sampler = ItemSampler(FREQUENCY, n=n)
    assert sampler.expected.sum().item() == pytest.approx(n, rel=1e-5)
    assert (sampler.expected <= 1 + 1e-6).all() and (sampler.expected > 0).all()
    assert (sampler.expected.diff() <= 1e-6).all(), "frequent items are expected more often"
    weight = torch.zeros(300, N_ITEMS)
    for draw in weight:
        drawn = sampler()
        assert (drawn.item.diff() > 0).all()
        draw[drawn.item] = drawn.log_weight.exp()
    count = (weight * sampler.expected).sum(1)
    torch.testing.assert_close(count, torch.full_like(count, n))
    # Each item's weight is 1 on average: 4 standard errors.
    error = 4 * ((1 / sampler.expected - 1).clamp_min(0) / len(weight)).sqrt() + 1e-3
    assert ((weight.mean(0) - 1).abs() < error).all()


def test_items_expected_once_are_always_drawn():
    sampler = ItemSampler(FREQUENCY, n=5)
    certain = sampler.expected >= 1 - 1e-6
    assert 1 <= certain.sum() == sampler.n_certain < 5
    for _ in range(50):
        drawn = sampler()
        weight = torch.zeros(N_ITEMS).index_put((drawn.item,), drawn.log_weight.exp())
        torch.testing.assert_close(weight[certain], torch.ones(int(certain.sum())))


def test_all_items_drawn_are_all_items():
    drawn = ItemSampler(FREQUENCY, n=N_ITEMS)()
    assert drawn.item.tolist() == list(range(N_ITEMS))
    torch.testing.assert_close(drawn.log_weight, torch.zeros(N_ITEMS))


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("causal", [False, True])
def test_with_all_items_it_is_the_exact_softmax(support, causal):
    choice, item = make_choice(support=support, causal=causal)
    drawn = ItemSampler(FREQUENCY, n=N_ITEMS)()
    exact, result = log_prob_of(choice, item), sampled_log_prob(choice, item, drawn)
    torch.testing.assert_close(result, exact, rtol=1e-5, atol=1e-5)
    sums = [torch.autograd.grad(nats.sum(), tensors(choice)) for nats in (exact, result)]
    for one, other in zip(*sums, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("support", SUPPORTS)
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


def test_gradients_are_those_of_differences():
    drawn = Drawn(torch.tensor([0, 2, 3, 8]), torch.tensor([0.0, 0.5, 1.0, 2.0]))
    for support in SUPPORTS:
        choice, item = make_choice(support=support, dtype=torch.float64)

        def result(state, vectors, bias, penalty=None, choice=choice, item=item):
            eta = choice.eta._replace(state=state, vectors=vectors, bias=bias)
            lists = choice.excluded, choice.penalized
            return sampled_log_prob(ItemChoice(eta, *lists, penalty, choice.again), item, drawn)

        assert torch.autograd.gradcheck(result, tensors(choice), fast_mode=True)


def test_a_row_that_may_choose_none_of_the_drawn_is_sure():
    eta = LinearEta(torch.ones(2, 1), torch.ones(4, 1), None, 4)
    choice = ItemChoice(eta, excluded=(OnePerRow(torch.tensor([2, -1])),))
    drawn = Drawn(torch.tensor([1, 2]), torch.zeros(2))
    nats = sampled_log_prob(choice, torch.tensor([1, 1]), drawn)
    torch.testing.assert_close(nats, torch.tensor([0.0, -np.log(2.0)]).float())


@pytest.mark.parametrize("n", [0, -1, 12])
def test_numbers_to_draw(n):
    with pytest.raises(
        ExfamError, match=rf"`n` must be from 1 to the number of items, 11, got {n}"
    ):
        ItemSampler(FREQUENCY, n=n)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("support", SUPPORTS)
def test_a_model_samples_in_training_alone(direction, support):
    settings = LatentFactorSettings(direction=direction, dim=4)
    part = build_latent_factor_items(9, settings, generator=generator())
    exact = TwoPartModel(direction=direction, item_part=part, support=SUPPORTS[support]())
    sampler = ItemSampler(torch.arange(1.0, 10.0), n=4)
    model = TwoPartModel(
        direction=direction, item_part=part, support=exact.support, sampler=sampler
    )
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

    def test_same_seed_same_bits_and_all_items_are_no_sample(self, kind):
        fits = [make(kind, n_sampled_items=3, max_epochs=1).fit(FRAME) for _ in range(2)]
        assert same_bits(*fits)
        exact, all_items = (
            make(kind, n_sampled_items=n, max_epochs=1).fit(FRAME) for n in (0, 100)
        )
        assert same_bits(exact, all_items) and not same_bits(exact, fits[0])

    def test_it_is_saved_without_its_sampler(self, kind, tmp_path):
        fitted = make(kind, n_sampled_items=3, max_epochs=1).fit(FRAME)
        fitted.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert loaded.members_[0].sampler is None and loaded.n_sampled_items == 3
        np.testing.assert_array_equal(loaded.log_prob(FRAME), fitted.log_prob(FRAME))

    def test_numbers_that_make_no_sense(self, kind):
        with pytest.raises(ExfamError, match="`n_sampled_items` must be an integer >= 0, got -1"):
            make(kind, n_sampled_items=-1).fit(FRAME)


class PowerCut(Exception):
    pass


def test_a_fit_that_is_cut_goes_on_with_the_same_draws(tmp_path):
    """The state of torch's generator, which items are drawn from, is in the checkpoint."""
    groups = make_groups(lengths=[4] * 12, seed=2)
    settings = TrainingSettings(batch_size=4, max_epochs=3)
    sampler = ItemSampler(torch.arange(1.0, 10.0), n=3)

    def trained(*, fails_at=None, checkpoint=None):
        part = build_latent_factor_items(9, LatentFactorSettings(dim=4), generator=generator())
        model = TwoPartModel(direction="bidirectional", item_part=part, sampler=sampler)
        calls = []

        def objective(model, batch):
            calls.append(batch)
            if len(calls) == fails_at:
                raise PowerCut("the lights went out")
            return Likelihood("bidirectional")(model, batch)

        fit(
            model,
            objective=objective,
            train=groups,
            settings=settings,
            progress=False,
            checkpoint=checkpoint,
        )
        return model.state_dict(), len(calls)

    whole_fit, n_calls = trained()
    checkpoint = Checkpoint(tmp_path, seconds=0.0)
    with pytest.raises(PowerCut, match="lights"):
        trained(fails_at=9, checkpoint=checkpoint)
    resumed, n_left = trained(checkpoint=checkpoint)
    # Nine steps, and three batches before and after them that show whether the fit diverged.
    assert n_left < n_calls == 15
    assert all(torch.equal(resumed[name], tensor) for name, tensor in whole_fit.items())
