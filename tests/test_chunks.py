"""Passes over all elements work chunk by chunk, to the same end as in one piece."""

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from efa_cases import rich_groups, rich_schema
from exfam.checks import ExfamError
from exfam.efa.plan import _has_target
from exfam.estimator.schema import Schema, moments, sampled
from exfam.families import Gaussian
from exfam.groups import arrange
from group_cases import bounds, full_groups
from model_cases import make_groups

LENGTHS = (3, 0, 5, 2, 7, 1, 4, 4, 6, 2)


@pytest.fixture
def in_chunks(monkeypatch):
    """Chunks of four elements; how many there have been so far."""
    seen = []
    whole = arrange.chunks

    def counted(groups, max_elements=None):
        for chunk in whole(groups, max_elements):
            seen.append(len(chunk))
            yield chunk

    monkeypatch.setattr(arrange, "ELEMENTS_PER_CHUNK", 4)
    monkeypatch.setattr(arrange, "chunks", counted)
    return seen


@given(
    lengths=st.lists(st.integers(0, 5), max_size=8), lags=st.integers(0, 2), most=st.integers(1, 12)
)
def test_chunks_are_the_groups_cut_where_they_must_be(lengths, lags, most):
    groups = full_groups(lengths, lags=lags) if lengths else full_groups((1,))[:0]
    parts = list(groups.chunks(most))
    names = [part.group_names for part in parts]
    np.testing.assert_array_equal(np.concatenate([*names, []]), groups.group_names)
    sizes = [int(part.lengths.sum()) for part in parts]
    assert all(size <= most or len(part) == 1 for size, part in zip(sizes, parts, strict=True))
    after = [int(part.lengths[0]) for part in parts[1:]]
    assert all(size + more > most for size, more in zip(sizes[:-1], after, strict=True))
    with pytest.raises(ExfamError, match="`max_elements` must be a number > 0, got 0"):
        list(groups.chunks(0))


@pytest.mark.parametrize("width", [(), (3,)])
def test_moments_of_pieces_are_those_of_the_whole(width):
    table = 100 + np.random.default_rng(0).normal(size=(40, *width))
    mean, spread = moments(np.split(table, [0, 1, 7, 30]))
    np.testing.assert_allclose(mean, table.mean(0), rtol=1e-14)
    np.testing.assert_allclose(spread, table.std(0), rtol=1e-13)
    assert moments([np.zeros(0)]) == moments([]) == (0, 0)


def test_a_sample_is_a_share_of_each_stretch_in_order():
    pieces = np.split(np.arange(20000), [10, 9000])
    every = sampled(pieces, total=20000, most=20000)
    assert np.array_equal(every, np.arange(20000)) and len(sampled([], total=0)) == 0
    some = sampled(pieces, total=20000, most=2000)
    assert (np.diff(some) > 0).all()
    # Binomial with a standard deviation of 21 in each half.
    np.testing.assert_allclose(np.histogram(some, 2, (0, 20000))[0], 1000, atol=100)


class TestSameInChunks:
    def test_schema(self, in_chunks):
        position = np.cumsum(np.random.default_rng(3).integers(1, 5, sum(LENGTHS)))
        groups = rich_groups(lengths=LENGTHS, position=position)
        groups = groups.with_(observed=np.arange(groups.n_rows) % 5 != 2)
        pieces = rich_schema(groups)
        assert len(in_chunks) > 30
        arrange.ELEMENTS_PER_CHUNK = 1000
        whole = rich_schema(groups)
        assert pieces.n_positions == whole.n_positions
        assert pieces.position_scale == whole.position_scale
        assert [spec.n for spec in pieces.attributes] == [spec.n for spec in whole.attributes]
        pairs = zip(
            [*pieces.values, *pieces.attributes], [*whole.values, *whole.attributes], strict=True
        )
        for spec, expected in pairs:
            for name in ("center", "spread", "initial_eta"):
                if name in asdict(expected):
                    np.testing.assert_allclose(getattr(spec, name), getattr(expected, name))

    def test_checks_are_the_same(self, in_chunks):
        groups = rich_groups(lengths=LENGTHS)
        schema = rich_schema(groups)
        schema.check(groups)
        value = groups.values["value"].copy()
        value[[9, 23, 30]] = (2.5, 7, 9)
        genre, gap = (groups.attributes[name].copy() for name in ("genre", "gap"))
        genre[[11, 25]] = (4, 8)
        gap[[13, 29]] = np.nan
        wrong = [
            ({"values": groups.values | {"value": value}}, "2.5 at row 9 .3 of 34 "),
            ({"attributes": groups.attributes | {"genre": genre}}, "below 4, .* got 8"),
            ({"attributes": groups.attributes | {"gap": gap}}, r"\[nan\] at element 13 .2 of 34"),
        ]
        for changes, match in wrong:
            with pytest.raises(ExfamError, match=match):
                schema.check(groups.with_(**changes))
        hidden = make_groups(lengths=LENGTHS, observed=np.zeros(34, dtype=bool))
        with pytest.raises(ExfamError, match="`value` must have at least one observed value"):
            Schema.of(hidden, families={"value": Gaussian()})

    def test_targets(self, in_chunks):
        groups = full_groups(LENGTHS, lags=1)
        weight = np.random.default_rng(1).integers(0, 2, groups.n_rows).astype(float)
        result = (
            groups.n_targets,
            _has_target(groups, None, items=True),
            _has_target(groups, weight, items=True),
        )
        assert len(in_chunks) > 20
        role = groups.role == 0
        cuts = list(zip(groups.start, groups.stop, strict=True))
        assert result[0] == role.sum()
        assert result[1].tolist() == [role[a:b].any() for a, b in cuts]
        assert result[2].tolist() == [bool((role * weight)[a:b].sum()) for a, b in cuts]
        assert 0 < result[2].sum() < result[1].sum() < len(LENGTHS)

    def test_repeats(self, in_chunks):
        item = np.concatenate([np.arange(n) for n in LENGTHS])
        groups = full_groups(LENGTHS).with_(**bounds(LENGTHS), vocabulary={}, item=item)
        assert not groups.repeats_items() and len(in_chunks) > 5
        item[groups.start[8] + 4] = 1
        group, code, elements = groups.with_(item=item).first_repeat()
        assert (group, code) == (8, 1)
        assert elements.tolist() == [groups.start[8] + 1, groups.start[8] + 4]
