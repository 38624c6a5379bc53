"""Long causal groups in windows: what short ones give, no leak, linear cost, the same bits."""

import numpy as np
import pytest
import torch

from exfam import EFA
from exfam.attention import Visibility
from exfam.conditionals import Conditional, Hidden, TwoStream, Windowed
from exfam.conditionals.windows import EARLIER, PREDICTED
from exfam.groups import Groups
from exfam.layers import lend_generator
from model_cases import first_elements, generator, more_padding, randomize, whole, with_item
from networks import random_blocks, random_encoding, random_tokens

CAUSAL, WIDTH, N_ITEMS = Visibility("causal"), PREDICTED + EARLIER, 9
close = torch.testing.assert_close


class Pointwise(Conditional):
    """Each state is the center's own token and position; counts elements and windows."""

    n_elements = n_windows = 0

    def hide(self, blocks, tokens, visibility):
        self.n_elements += tokens.present.numel()
        self.n_windows += len(tokens.present)
        return Hidden(tokens.center + tokens.position[..., None], ())


class HowMany(Conditional):
    """Each state is the number of elements before it in its window."""

    def hide(self, blocks, tokens, visibility):
        present = tokens.present.float()
        return Hidden((present.cumsum(1) - present)[..., None], ())


def tokens_of(*lengths, times=False):
    tokens = random_tokens(lengths=lengths)
    if not times:
        return tokens
    return tokens._replace(position=torch.rand(tokens.present.shape, generator=generator(4)))


def blocks_of(encoding="relative"):
    return random_blocks(2, encoding=random_encoding(encoding, generator(5)), feed_forward=True)


@pytest.mark.parametrize("training", [False, True])
def test_folding_then_unfolding_changes_nothing(training):
    tokens = tokens_of(0, 1, 60, 137, 100, 412, 101, 51, times=True)
    windowed = Windowed(Pointwise()).train(training)
    expected = Pointwise().hide([], tokens, CAUSAL).state[tokens.present]
    hidden = windowed.hide(blocks_of(), tokens, CAUSAL).state
    states = windowed.states(blocks_of(), tokens, CAUSAL, tokens.present)
    for state in (hidden, states):
        assert torch.equal(state[tokens.present], expected)


def test_a_long_group_costs_its_windows_and_one_target_costs_one():
    tokens = tokens_of(2_000, 30, times=True)
    last = torch.zeros_like(tokens.present)
    last[0, -1] = True
    for wanted, n_windows in ((tokens.present, 40), (last, 1)):
        inner = Pointwise()
        state = Windowed(inner).eval().states(blocks_of(), tokens, CAUSAL, wanted)
        assert (inner.n_windows, inner.n_elements) == (n_windows, n_windows * WIDTH)
        close(state[wanted], Pointwise().hide([], tokens, CAUSAL).state[wanted])
    count = Windowed(TwoStream()).numbers_an_element
    assert count(2_000, n_heads=2, dim=8) == count(200, n_heads=2, dim=8)


@pytest.mark.parametrize("training", [False, True])
def test_first_windows_see_all_and_later_ones_50_elements_or_more(training):
    windowed, tokens = Windowed(HowMany()).train(training), tokens_of(90, 430)
    seen = windowed.hide(blocks_of(), tokens, CAUSAL).state[1, :, 0]
    position, certain = torch.arange(430.0), EARLIER + 1 if training else WIDTH
    assert torch.equal(seen[:certain], position[:certain])
    assert (seen >= position.clamp_max(EARLIER)).all() and seen.max() < WIDTH


@pytest.mark.parametrize("encoding", ["relative", "rotary", "distance", "alibi"])
def test_groups_of_one_window_are_as_without(encoding):
    blocks, tokens = blocks_of(encoding), random_tokens(encoding, lengths=(7, WIDTH, 33))
    alone, windowed = TwoStream().hide(blocks, tokens, CAUSAL), Windowed(TwoStream()).eval()
    result = windowed.hide(blocks, tokens, CAUSAL)
    assert torch.equal(result.state, alone.state)
    # Beside a longer group, too.
    beside = random_tokens(encoding, lengths=(7, WIDTH, 33, 260))
    for part, short in zip(beside[:3], tokens[:3], strict=True):
        if part.stride(0):
            part[:3, :WIDTH] = short
    result = windowed.hide(blocks, beside, CAUSAL)
    present = tokens.present
    close(result.state[:3, :WIDTH][present], alone.state[present], rtol=1e-4, atol=1e-4)
    for used, expected in zip(result.weights, alone.weights, strict=True):
        rows = used[:3, :, :WIDTH].transpose(1, 2)[present]
        close(rows[..., :WIDTH], expected.transpose(1, 2)[present], rtol=1e-4, atol=1e-5)
        close(used[3].sum(-1)[:, 1:], torch.ones(2, 259))


def sequences(n_groups=12, seed=0):
    """Of 4 to 250 elements, in which each item has a favorite successor."""
    random = np.random.default_rng(seed)
    lengths = random.choice([4, 30, 120, 250], n_groups)
    item = random.integers(0, N_ITEMS, lengths.sum())
    for index in np.flatnonzero(random.random(len(item)) < 0.7)[1:]:
        item[index] = (item[index - 1] + 1) % N_ITEMS
    stop = np.cumsum(lengths)
    vocabulary = {"item": np.arange(N_ITEMS)}
    return Groups(stop - lengths, stop, item=item, vocabulary=vocabulary, ordered=True)


SIZES = {"embed_dim": 8, "n_heads": 2, "head_dim": 4, "n_layers": 2, "progress": False}


@pytest.fixture(scope="module")
def model():
    fitted = EFA(**SIZES, direction="causal", max_epochs=2, batch_size=4).fit(sequences())
    randomize(fitted.members_[0].item_part.correction, generator(1))
    fitted.members_[0].item_part.gate.fill_(0.8)
    return fitted


def test_no_output_sees_its_own_item_or_later_ones(model):
    part, batch = model.members_[0].item_part.eval(), whole(sequences(2, seed=3))
    before = part.eta(batch)
    for column in (0, 49, 70, 99, 100, 149, 150, 201, 249):
        new = (int(batch.item[0, column]) + 4) % N_ITEMS
        moved = (part.eta(with_item(batch, 0, column, new)) - before).abs().amax(-1)
        assert moved[1].max() == 0 and moved[0, : column + 1].max() < 1e-5
        assert column == 249 or moved[0, column + 1] > 1e-4


def test_what_is_appended_and_padding_change_nothing(model):
    part, batch = model.members_[0].item_part.eval(), whole(sequences(2, seed=3))
    before = part.eta(batch)
    close(part.eta(more_padding(batch))[:, :250], before, rtol=1e-4, atol=1e-4)
    for length in (3, 99, 100, 101, 140, 200):
        short = part.eta(first_elements(batch, length))
        close(short[0], before[0, :length], rtol=1e-4, atol=1e-4)


def test_windows_of_training_are_drawn_from_the_fits_generator():
    windowed, tokens = Windowed(HowMany()).train(), tokens_of(300, 300)

    def seen(seed):
        with lend_generator(generator(seed), windowed):
            return windowed.hide(blocks_of(), tokens, CAUSAL).state[..., 0]

    assert torch.equal(seen(1), seen(1)) and not torch.equal(seen(1), seen(2))
    assert not torch.equal(*seen(1))


def test_context_ranges_are_seen_and_cost_windows_where_they_are_predicted_from(model):
    part, groups = model.members_[0].item_part.eval(), sequences(2, seed=3)
    batch = whole(groups)
    start, stop = groups.start[:1], groups.stop[:1]
    ranges = {"context_start": start[:, None], "context_stop": stop[:, None] - 5}
    later = groups[:1].with_(start=stop - 5, **ranges).pad([0])
    assert (later.steps_back[0, :-5] == 1).all()
    close(part.correction.eta(later)[0, -5:], part.correction.eta(batch)[0, -5:])
