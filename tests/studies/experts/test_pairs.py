"""(Word, position) pairs as units: tables that are the network, and what a corpus says of them."""

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.experts import Sentences, as_experts, forward, random_network
from exfam.groups import Groups
from exfam.tables.experts.table_attention import TableAttention
from exfam_studies.experts.context_words import ContextWordsSettings, build_context_words
from exfam_studies.experts.pair_summary import summarize_context_pairs, summarize_pairs
from exfam_studies.experts.pairs import pair_experts
from expert_cases import SCHEMA, linear_table, random_cells

EXACT = {"rtol": 0.0, "atol": 1e-10}
N_TOKENS, N_POSITIONS, ROWS = 6, 4, 40
TARGETS = [3, 0, 2]


def network(n_heads=2):
    return random_network(
        torch.Generator().manual_seed(0),
        n_heads=n_heads,
        n_positions=N_POSITIONS,
        n_tokens=N_TOKENS,
    )


def sentences(*, masks=True, absent=True, seed=1):
    g = torch.Generator().manual_seed(seed)
    code = torch.randint(0, N_TOKENS, (ROWS, N_POSITIONS), generator=g)
    if absent:
        code = code.masked_fill(torch.rand(code.shape, generator=g) < 0.3, -1)
    masked = torch.rand(code.shape, generator=g) < 0.2 if masks else None
    return Sentences(code, masked=masked)


@pytest.mark.parametrize("n_heads", [1, 3])
def test_tables_of_pairs_are_the_network(n_heads):
    pairs, rows = pair_experts(network(n_heads), TARGETS), sentences()
    result, expected = pairs.experts(rows), as_experts(network(n_heads), rows, TARGETS)
    torch.testing.assert_close(result.weights, expected.weights, **EXACT)
    torch.testing.assert_close(result.contributions, expected.contributions, **EXACT)
    torch.testing.assert_close(result.logits, forward(network(n_heads), rows, TARGETS), **EXACT)
    assert float(result.logits.std(0).min()) > 1e-2


def test_an_expert_is_its_word_and_its_position_and_nothing_else():
    """f = W^LOV (c_w + p_j) + (g + D e_m) / H: differences of words are alike at all positions."""
    f = pair_experts(network(), [3]).contributions[:, 0, :, :3]
    gap = f[1] - f[0]
    torch.testing.assert_close(gap[:, 0], gap[:, 2], **EXACT)
    assert float(gap.abs().min()) > 1e-4 and float((f[0, :, 0] - f[0, :, 1]).abs().min()) > 1e-4
    # At the target's own position there is MASK, whatever the row.
    own = pair_experts(network(), [3]).contributions[:, 0, :, 3]
    torch.testing.assert_close(own, own[-1:].expand_as(own), **EXACT)


def test_weights_are_shares_of_the_pairs_strengths():
    pairs, rows = pair_experts(network(), [3]), sentences(masks=False, absent=False)
    weights, r, h = pairs.experts(rows).weights, 5, 1
    units = [*rows.code[r, :3].tolist(), N_TOKENS]
    tau = torch.stack([pairs.strengths[unit, 0, h, j] for j, unit in enumerate(units)])
    torch.testing.assert_close(weights[r, 0, h], tau / tau.sum(), **EXACT)
    assert float(pairs.strengths.amax((0, 3)).min()) == 1.0


def test_pairs_of_a_table_are_columns_and_their_labels():
    table = TableAttention(linear_table().members[0], SCHEMA)
    cells = random_cells()
    cells.fraction[...] = 0.0
    rows, places = table.sentences(cells), table.indices(["d", "a"])
    result = pair_experts(table.attention, places).experts(rows).logits
    torch.testing.assert_close(result, table.experts(cells, ["d", "a"]).logits, **EXACT)
    summary = summarize_pairs(table.attention, rows, places)
    # Labels of column b are the tokens 4 to 7.
    expected = np.bincount(cells.code[cells.code[:, 1] >= 0, 1], minlength=4)
    assert summary.count[0, 1].tolist() == [0] * 4 + expected.tolist() + [0] * 9


def test_cells_between_two_tokens_are_no_units():
    rows = Sentences(torch.zeros(2, N_POSITIONS, dtype=torch.int64), torch.full((2, 4), 0.5))
    for refused in (
        pair_experts(network(), [0]).experts,
        lambda r: summarize_pairs(network(), r, [0]),
    ):
        with pytest.raises(ExfamError, match="`sentences` must be of whole tokens as units"):
            refused(rows)
    with pytest.raises(ExfamError, match=r"`targets` must be in 0 .. 3, got 4"):
        pair_experts(network(), [4])
    with pytest.raises(ExfamError, match="`code` must name one of the network's 6 tokens"):
        pair_experts(network(), [0]).experts(Sentences(torch.full((2, N_POSITIONS), 6)))


def test_a_summary_is_the_mean_over_the_sentences_where_a_pair_stands(monkeypatch):
    monkeypatch.setattr("exfam_studies.experts.pair_summary._AT_ONCE", 7)
    attention, rows = network(), sentences()
    summary = summarize_pairs(attention, rows, TARGETS)
    experts, law = as_experts(attention, rows, TARGETS), {}
    t, place = 1, 2
    m = TARGETS[t]
    for unit in (2, N_TOKENS):
        is_mask = rows.is_mask[:, place]
        where = is_mask if unit == N_TOKENS else (rows.code[:, place] == unit) & ~is_mask
        chosen = where.nonzero()[:, 0]
        assert summary.count[t, place, unit] == len(chosen) > 1
        weight = experts.weights[chosen, t, :, place].mean()
        assert summary.weight[t, place, unit] == pytest.approx(float(weight))
        size = experts.parts[chosen, t, place].norm(dim=-1).mean()
        assert summary.size[t, place, unit] == pytest.approx(float(size))
        # Without the cell, by the network's own computation.
        without = rows.code.clone()
        without[:, place] = -1
        bare = rows.masked.clone()
        bare[:, place] = False
        whole = forward(attention, rows, [m])[chosen, 0].log_softmax(-1)
        less = forward(attention, Sentences(without, masked=bare), [m])[chosen, 0].log_softmax(-1)
        law[unit] = float((whole.exp() * (whole - less)).sum(-1).mean())
        assert summary.nats[t, place, unit] == pytest.approx(law[unit], abs=1e-10)
    assert law[2] > 1e-3
    np.testing.assert_allclose(summary.share.sum(axis=(1, 2)), 1.0)
    # MASK stands at the target, always, and its removal is none.
    assert summary.count[t, m, N_TOKENS] == ROWS and summary.nats[t, m].max() == 0.0


def test_the_strongest_pairs_come_first():
    summary = summarize_pairs(network(), sentences(), TARGETS)
    result = summary.strongest(5, names=list("abcdef"))
    nats = [each["nats"] for each in result]
    assert nats == sorted(nats, reverse=True) and nats[0] == summary.nats.max()
    first = result[0]
    at = TARGETS.index(first["target"]), first["place"], "abcdef".index(first["unit"])
    assert summary.nats[at] == first["nats"] and summary.count[at] == first["count"]
    often = summary.strongest(1, by="share", least=ROWS)[0]
    assert (often["unit"], often["count"]) == (N_TOKENS, ROWS)
    assert summary.strongest(3, least=ROWS + 1) == []
    with pytest.raises(ExfamError, match="`by` must be one of 'weight', 'share', 'size', 'nats'"):
        summary.strongest(3, by="size of it")
    with pytest.raises(ExfamError, match="`k` must be an integer >= 1, got 0"):
        summary.strongest(0)


def test_nothing_to_summarize_is_refused():
    none = Sentences(torch.zeros(0, N_POSITIONS, dtype=torch.int64))
    with pytest.raises(ExfamError, match="`sentences` must hold at least one word with a context"):
        summarize_pairs(network(), none, [0])


def words(**settings):
    generator = torch.Generator().manual_seed(0)
    model = build_context_words(5, ContextWordsSettings(**settings), generator=generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


CORPUS = Groups(
    start=[0, 5, 7], stop=[5, 7, 8], item=[2, 0, 2, 4, -1, 1, 3, 0],
    vocabulary={"item": np.arange(5)},
)  # fmt: skip


@pytest.mark.parametrize("weights", ["even", "mask", "center"])
def test_pairs_of_words_and_distances(weights):
    model = words(weights=weights, window=2, offsets=True)
    summary = summarize_context_pairs(model, CORPUS)
    assert summary.places == (-2, -1, 1, 2) and summary.targets == ("all",)
    # Word 2 stands one before word 0 and, in its second place, one before word 4.
    place = summary.places.index(-1)
    assert summary.count[0, place, 2] == 2 and summary.count[0, place, 3] == 0
    batch = CORPUS.pad([0])
    window = model.around(batch)
    alpha = model.weights(window).expand(-1, -1, -1, 5)[0].detach()
    column = window.offset.tolist().index(-1)
    expected = (alpha[1, column, 0] + alpha[3, column, 4]) / 2
    assert summary.weight[0, place, 2] == pytest.approx(float(expected), rel=1e-5)
    assert summary.share.sum() == pytest.approx(1.0) and summary.nats.max() > 0.01
    with pytest.raises(ExfamError, match="`network` must have a window to have distances"):
        summarize_context_pairs(words(weights=weights), CORPUS)
