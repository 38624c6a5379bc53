"""Log-probabilities, gradients and ranks tile by tile, and of sampled items: of a dense softmax."""

import itertools
from functools import partial

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from estimator_cases import TRAINED, make, ratings, same_bits
from exfam import ExfamError, load
from exfam.catalog import linear, normalizer
from exfam.catalog.linear import LinearEta
from exfam.catalog.listed import ContextItems, ContextTable, OnePerRow
from exfam.catalog.normalizer import ItemChoice, log_normalizer, log_prob_of
from exfam.catalog.ranking import all_log_probs, best_items, item_rank
from exfam.catalog.sampled import Drawn, ItemSampler, sampled_log_prob
from exfam.scores.metrics import ranks
from model_cases import generator

N_ITEMS, DIM = 11, 3
every_support = pytest.mark.parametrize("support", ["none", "hard", "penalty"])


def context(*, causal=False, form=ContextItems):
    """Distinct items of some groups (padding and an unknown item among them), and their rows."""
    code = torch.stack([torch.randperm(N_ITEMS, generator=generator(g))[:6] for g in range(5)])
    present = torch.arange(6) < torch.tensor([4, 1, 6, 2, 5])[:, None]
    code[2, 1] = N_ITEMS
    code = torch.where(present, code, N_ITEMS)
    where = present.nonzero(as_tuple=True)
    return code, where, form.of(code, where, n_items=N_ITEMS, causal=causal)


def pairs(listed, n_rows, n_classes):
    """All listed pairs as a table."""
    table = torch.zeros(n_rows, n_classes, dtype=torch.bool)
    row, column = listed.within(slice(0, n_rows), slice(0, n_classes))
    table[row, column] = True
    assert table.sum() == len(row), "a pair is listed twice"
    return table


def make_choice(*, support="none", dtype=torch.float32, causal=False, seed=0, scale=1.0, **form):
    """A choice for every row of the context's groups, one row of vectors too many."""
    code, where, seen = context(causal=causal, **form)
    source = generator(seed)
    shapes = (len(where[0]), DIM), (N_ITEMS + 1, DIM), (N_ITEMS,)
    drawn = [scale * torch.randn(shape, generator=source, dtype=torch.float64) for shape in shapes]
    eta = LinearEta(*(draw.to(dtype).requires_grad_() for draw in drawn), n_items=N_ITEMS)
    free = pairs(seen, len(where[0]), N_ITEMS).long().argmin(1)
    own = torch.where(code[where] < N_ITEMS, code[where], free)
    if support == "hard":
        return ItemChoice(eta, excluded=(seen,)), own
    if support == "penalty":
        penalty = torch.tensor(1.5, dtype=dtype, requires_grad=True)
        again = pairs(seen, len(own), N_ITEMS)[torch.arange(len(own)), own]
        return ItemChoice(eta, penalized=(seen,), penalty=penalty, again=again), own
    return ItemChoice(eta), own


def tensors(choice):
    """What gradients are taken of."""
    given = [choice.eta.state, choice.eta.vectors, choice.eta.bias, choice.penalty]
    return [tensor for tensor in given if tensor is not None]


def with_tensors(choice, state, vectors, bias, penalty=None):
    eta = choice.eta._replace(state=state, vectors=vectors, bias=bias)
    return ItemChoice(eta, choice.excluded, choice.penalized, penalty, choice.again)


def dense_log_probs(choice):
    """All log-probabilities of a choice, in one product and one softmax."""
    eta = choice.eta.dense()
    for listed in choice.penalized:
        eta = eta - choice.penalty * pairs(listed, *eta.shape)
    for listed in choice.excluded:
        eta = eta.masked_fill(pairs(listed, *eta.shape), -torch.inf)
    return eta.log_softmax(-1)


FREQUENCY = torch.tensor([0.4, 0.25, 0.1, 0.1, 0.05, 0.03, 0.03, 0.02, 0.02, 0.0, 0.0])
close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)


@pytest.fixture
def tile(monkeypatch):
    """Sets the size of tiles, and the bytes of outputs that are kept."""

    def set_tile(numbers, rows, kept=linear.KEPT_BYTES):
        monkeypatch.setattr(linear, "KEPT_BYTES", kept)
        monkeypatch.setattr(linear, "TILE", numbers)
        monkeypatch.setattr(linear, "TILE_ROWS", rows)

    return set_tile


def gradients(nats, choice):
    """Of a sum in which every row has a weight of its own."""
    weight = torch.randn(len(nats), generator=generator(1), dtype=torch.float64)
    return torch.autograd.grad((weight.to(nats.dtype) * nats).sum(), tensors(choice))


@pytest.mark.parametrize("form", [ContextItems, ContextTable])
@pytest.mark.parametrize("causal", [False, True])
@every_support
def test_is_the_dense_softmax_however_it_is_tiled(support, causal, form, tile):
    choice, own = make_choice(support=support, causal=causal, form=form)
    expected = dense_log_probs(choice)[torch.arange(len(own)), own]
    sums = gradients(expected, choice)
    assert all(total.abs().max() > 0 for total in sums) and expected.std() > 0.1
    sizes = [(2**20, 512), (2**20, 3), (1, 1), (7, 3), (30, 1), (30, 30), (64, 4)]
    for (numbers, rows), kept in itertools.product(sizes, (0, 2**20)):
        tile(numbers, rows, kept)
        result = log_prob_of(choice, own)
        close(result, expected)
        close(gradients(result, choice), sums)


@pytest.mark.parametrize("numbers", [2**20, 30])
@every_support
def test_a_second_backward_pass_gives_the_same_gradients(support, numbers, tile):
    tile(numbers, 3)
    choice, own = make_choice(support=support)
    nats = log_prob_of(choice, own).square().sum()
    first = torch.autograd.grad(nats, tensors(choice), retain_graph=True)
    close(torch.autograd.grad(nats, tensors(choice)), first)


def test_few_outputs_are_computed_once_and_many_for_each_pass(tile, monkeypatch):
    computed = []
    compute = normalizer._apply_support
    monkeypatch.setattr(
        normalizer, "_apply_support", lambda *tile: computed.append(1) or compute(*tile)
    )
    choice, own = make_choice()
    n_outputs = len(own) * choice.eta.n_items
    for kept, n_passes in ((4 * n_outputs, 1), (4 * n_outputs - 1, 2)):
        tile(7, len(own), kept)
        computed.clear()
        nats = log_prob_of(choice, own).sum()
        n_tiles = len(computed)
        nats.backward()
        assert n_tiles > 1 and len(computed) == n_passes * n_tiles


@every_support
def test_bfloat16_sums_in_single_precision(support):
    """Inputs are rounded, sums are not: far closer to exact than a softmax in bfloat16."""
    choice, own = make_choice(support=support, dtype=torch.bfloat16)
    exact = with_tensors(choice, *(t.detach().double().requires_grad_() for t in tensors(choice)))
    result, expected = log_prob_of(choice, own), dense_log_probs(exact)[torch.arange(len(own)), own]
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.double(), expected, rtol=2**-8, atol=1e-3)
    for mine, true in zip(gradients(result, choice), gradients(expected, exact), strict=True):
        # The weights of the rows are rounded too.
        torch.testing.assert_close(mine.double(), true, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("scale", [1e2, 1e15])
@every_support
def test_extreme_outputs_stay_finite(support, scale, tile):
    tile(20, 5)
    choice, own = make_choice(support=support, scale=scale)
    result = log_prob_of(choice, own)
    assert torch.isfinite(result).all() and result.min() < -scale and result.max() <= 0
    assert all(torch.isfinite(g).all() for g in gradients(result, choice))


def test_no_rows_no_bias_and_nothing_to_choose_from_but_one():
    eta = LinearEta(torch.ones(0, 2, requires_grad=True), torch.ones(4, 2), None, 3)
    for nothing in (
        log_prob_of(ItemChoice(eta), torch.ones(0).long()),
        log_normalizer(ItemChoice(eta)),
    ):
        nothing.sum().backward()
        assert nothing.shape == (0,) and eta.state.grad.shape == (0, 2)
    only = ItemChoice(eta._replace(state=torch.ones(2, 2), n_items=1))
    close(log_prob_of(only, torch.zeros(2).long()), torch.zeros(2))


def test_nan_stays_nan_and_frozen_vectors_have_no_gradient():
    choice, own = make_choice()
    frozen = ItemChoice(choice.eta._replace(vectors=choice.eta.vectors.detach()))
    log_prob_of(frozen, own).sum().backward()
    assert frozen.eta.vectors.grad is None and choice.eta.state.grad is not None
    with torch.no_grad():
        choice.eta.state[2, 0] = torch.nan
    results = log_prob_of(choice, own), best_items([choice], k=2).log_prob.sum(1)
    for result in (*results, item_rank([choice], own)):
        assert torch.isnan(result).nonzero().flatten().tolist() == [2]


class Largest(TorchFunctionMode):
    """The most numbers in any tensor."""

    numbers = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        tensors = out if isinstance(out, tuple | list) else [out]
        self.numbers = max([self.numbers, *(t.numel() for t in tensors if torch.is_tensor(t))])
        return out


def test_no_tensor_is_larger_than_a_tile(tile):
    tile(1024, 32)
    state, vectors = (torch.randn(n, 2, generator=generator()) for n in (64, 400))
    choice, item = ItemChoice(LinearEta(state, vectors, None, 400)), torch.zeros(64).long()
    with Largest() as largest:
        log_prob_of(choice, item)
    assert largest.numbers == 1025  # and the one beyond the last


@pytest.fixture(params=[(2**20, 512), (12, 4)], ids=str)
def ranking_tile(request, tile):
    tile(*request.param)


@pytest.mark.parametrize("size", [1, 3])
@every_support
def test_the_best_and_the_ranks_are_those_of_the_table(support, size, ranking_tile):
    choices, items = zip(*(make_choice(support=support, seed=s) for s in range(size)), strict=True)
    tables = [dense_log_probs(choice).exp().detach() for choice in choices]
    probability = torch.stack(tables).mean(0)
    expected, order = probability.sort(dim=1, descending=True, stable=True)
    for k in (1, 4, N_ITEMS):
        result = best_items(choices, k=k)
        torch.testing.assert_close(result.log_prob.exp(), expected[:, :k], rtol=1e-5, atol=1e-7)
        possible = expected[:, :k] > 0
        assert torch.equal(result.item[possible], order[:, :k][possible])
        assert (result.item.sort(dim=1).values.diff(dim=1) > 0).all(), "an item comes twice"
    by_table = ranks(probability.numpy(), items[0].numpy())
    assert np.ptp(by_table) > 3
    for rows in (slice(0, 4), slice(4, 5), slice(0, len(by_table))):
        some = [choice.part(rows) for choice in choices]
        np.testing.assert_array_equal(item_rank(some, items[0][rows]), by_table[rows])
        torch.testing.assert_close(all_log_probs(some[0]).detach().exp(), tables[0][rows])


@pytest.mark.parametrize("size", [1, 2])
def test_equals_share_ranks_and_come_by_code(size, ranking_tile):
    """Two items score 3, one 0 and one -0, and all others lower."""
    bias = torch.tensor([-1.0, 3.0, 0.0, 3.0, -0.0, -5.0])
    choices = [ItemChoice(LinearEta(torch.ones(2, 0), torch.ones(6, 0), bias, 6))] * size
    for code, rank in enumerate([5, 1.5, 3.5, 1.5, 3.5, 6]):
        assert item_rank(choices, torch.tensor([code, code])).tolist() == [rank, rank]
    swapped = [ItemChoice(choice.eta._replace(bias=bias[[0, 1, 4, 3, 2, 5]])) for choice in choices]
    for given in (choices, swapped):
        assert best_items(given, k=5).item.tolist() == [[1, 3, 2, 4, 0]] * 2


@pytest.fixture
def own_draws():
    """Samplers draw from torch's generator: what other tests draw does not depend on these."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield


@pytest.mark.parametrize("n", [4, 6])
@every_support
def test_normalizers_are_unbiased(support, n, own_draws):
    choice, item = make_choice(support=support)
    sampler, rows = ItemSampler(FREQUENCY, n=n), torch.arange(len(item))
    assert (sampler.expected.diff() <= 1e-6).all(), "frequent items are expected more often"
    assert sampler.expected.sum().item() == pytest.approx(n) and len(sampler().item) <= n
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
def test_gradients_of_sampled_ones_are_those_of_differences(support):
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
    close(nats, torch.tensor([0.0, -np.log(2.0)]).float())


@pytest.mark.parametrize("kind", TRAINED)
def test_fits_have_the_same_bits_approach_the_exact_one_and_are_saved(kind, tmp_path):
    frame = ratings(n_users=40, n_movies=8, least=2)
    parameters = {"value": None, "support": "none", "max_epochs": 12, "batch_size": 16}
    if kind == "efa":
        parameters["base"] = "none"
    fits = [
        make(kind, n_sampled_items=n, learning_rate=0.1, **parameters).fit(frame, validation=frame)
        for n in (0, 100, 7, 1, 1)
    ]
    exact, all_items, many, few, same = fits
    assert same_bits(few, same) and same_bits(exact, all_items)
    # Noise slows the steps down; of seven of eight items there is little.
    loss_of_many, loss_of_few = (exact.score(frame) - fit.score(frame) for fit in (many, few))
    assert loss_of_many < 0.75 * loss_of_few
    few.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.members_[0].sampler is None and loaded.n_sampled_items == 1
    np.testing.assert_array_equal(loaded.log_prob(frame), few.log_prob(frame))


def test_numbers_that_make_no_sense():
    for n in (0, 12):
        with pytest.raises(ExfamError, match=f"`n` must be from 1 to the .* 11, got {n}"):
            ItemSampler(FREQUENCY, n=n)
