"""Ranks: shares of batches, what torchrun says of a process, sums and messages of a group."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from exfam.checks import ExfamError
from exfam.layers import lend_generator
from exfam.training import distributed
from exfam.training.distributed import ManyRanks
from exfam.training.optimizer import choose_device
from exfam.training.ranks import (
    OneProcess,
    Place,
    Ranks,
    check_agreement,
    is_main_rank,
    place_in_world,
    share_of,
)
from toy_fit import squares, toy_engine, toy_settings


@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=40),
    size=st.integers(1, 9),
    data=st.data(),
)
def test_shares_are_all_of_a_batch_and_disjoint_and_of_like_length(lengths, size, data):
    lengths = np.array(lengths)
    batch = np.array(data.draw(st.permutations(range(len(lengths)))))
    batch = batch[: data.draw(st.integers(1, len(batch)))]
    shares = [share_of(batch, lengths, rank=rank, size=size) for rank in range(size)]
    assert sorted(np.concatenate(shares)) == sorted(batch)
    counts = [len(share) for share in shares]
    assert max(counts) - min(counts) <= 1
    sums = [lengths[share].sum() for share in shares]
    assert max(sums) - min(sums) <= lengths[batch].max()


def test_dealing_to_and_fro_favors_no_rank():
    random = np.random.default_rng(0)
    lengths = np.ceil(random.lognormal(2.0, 1.0, 3200)).astype(int)
    batches = np.split(random.permutation(3200), 100)
    first, second = (
        sum(lengths[share_of(batch, lengths, rank=rank, size=2)].sum() for batch in batches)
        for rank in range(2)
    )
    # Dealt 0 1 0 1 …, the first would have the longer one of every pair: a fifth more in all.
    assert abs(first - second) < 0.15 * second


def test_every_rank_and_step_has_dropout_of_its_own_that_comes_again():
    def masks(rank, steps=(0, 1)):
        drawn = []

        def drop(model, batch):
            drawn.append(model.dropout(torch.ones(50)).tolist())
            return squares(model, batch)

        engine = toy_engine(objective=drop, ranks=OneProcess(rank, 2))
        engine.begin_epoch(0)
        with lend_generator(engine.generator, engine.model):
            for step in steps:
                engine.step(step)
        return drawn

    first, second = masks(0), masks(1)
    assert len({tuple(mask) for mask in first + second}) == 4
    assert masks(0) == first
    # After a resumption only the later steps are taken.
    assert masks(1, steps=(1,)) == second[1:]


@pytest.mark.parametrize("name", ["batch_size", "batch_tokens"])
def test_a_batch_smaller_than_the_ranks_is_refused(name):
    with pytest.raises(ExfamError, match=f"`{name}` must be at least the number of ranks, 9, got"):
        toy_engine(toy_settings(**{name: 8}), ranks=OneProcess(0, 9))


def variables(**numbers):
    return {name.upper(): str(number) for name, number in numbers.items()}


def test_a_process_is_where_torchrun_puts_it():
    given = variables(rank=3, world_size=4, local_rank=1, local_world_size=2)
    assert place_in_world(given) == Place(3, 4, 1, 2)
    assert place_in_world({}) == Place()


def test_variables_that_say_half_are_refused():
    match = "numbers where WORLD_SIZE is not 1, got RANK=None, WORLD_SIZE='2'.*with torchrun"
    with pytest.raises(ExfamError, match=match):
        place_in_world(variables(world_size=2))
    with pytest.raises(ExfamError, match="got RANK='-1'"):
        place_in_world(variables(world_size=2, rank=-1, local_rank=0, local_world_size=2))


@pytest.fixture
def as_rank(monkeypatch):
    """Say to this process that it is a rank of two."""

    def say(rank):
        given = variables(rank=rank, world_size=2, local_rank=rank, local_world_size=2)
        for name, value in given.items():
            monkeypatch.setenv(name, value)

    return say


def test_the_main_rank_is_the_first_and_gpus_are_given_out_by_rank(as_rank, monkeypatch):
    assert is_main_rank()
    as_rank(0)
    assert is_main_rank()
    as_rank(1)
    assert not is_main_rank() and choose_device("cpu").type == "cpu"
    with pytest.raises(ExfamError, match="`device` must be 'cpu', 'cuda' or 'auto' with several"):
        choose_device("cuda:0")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ExfamError, match="GPU for each of the 2 ranks of a machine, got 'cuda' an"):
        choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    used = []
    monkeypatch.setattr(torch, "empty", lambda *_, device: used.append(device) or torch.zeros(0))
    choose_device("cuda")
    assert used == ["cuda:1"]


class Other(OneProcess):
    """A rank whose main rank has another seed."""

    def from_main(self, produce):
        return {}, {"seed": "1", "data": "same"}


def test_ranks_that_differ_say_in_what():
    check_agreement(Other(1, 2), {"data": "same"})
    with pytest.raises(ExfamError, match="`seed` must be the same on all ranks, got 1 of 2 that"):
        check_agreement(Other(1, 2), {"data": "same", "seed": "2"})


@pytest.fixture
def group():
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield ManyRanks(torch.device("cpu"))
    distributed._leave()
    assert not torch.distributed.is_initialized()


def test_a_group_is_ranks_that_sum_stop_and_send(group):
    assert isinstance(group, Ranks) and (group.rank, group.size) == (0, 1)
    assert group.sum([1 / 3, 1e12 + 0.25]) == [1 / 3, 1e12 + 0.25]
    # A request to stop is known after the next sum.
    assert not group.stops(True)
    group.sum([1.0])
    assert group.stops(False)
    arrays = {"turned": np.arange(6.0).reshape(2, 3).T, "scalar": np.array(2, dtype=np.int64)}
    facts = {"large": 2**200, "float": 0.1 + 0.2, "none": None}
    assert group.from_main(lambda: (arrays, facts)) == (arrays, facts)
    sent, sent_facts = distributed._unpacked(distributed._packed((arrays, facts)))
    assert sent_facts == facts
    for name, array in arrays.items():
        np.testing.assert_array_equal(sent[name], array, strict=True)


def test_a_rank_that_has_left_is_named(group, monkeypatch):
    def reset(tensor):
        raise RuntimeError("Connection reset by peer")

    monkeypatch.setattr(torch.distributed, "all_reduce", reset)
    with pytest.raises(ExfamError, match="All 1 ranks must stay until the fit ends, got one that"):
        group.sum([1.0])
