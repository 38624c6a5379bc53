"""Passes over all elements work chunk by chunk, to the same end as in one piece."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from efa_cases import rich_groups, rich_schema
from exfam.checks import ExfamError, SupportError
from exfam.efa.plan import _has_target, log_frequencies
from exfam.estimator.schema import Schema, check_in_support, moments, sampled
from exfam.families import Gaussian, Ordinal, Poisson
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


class TestChunks:
    @given(
        lengths=st.lists(st.integers(0, 5), max_size=8),
        lags=st.integers(0, 2),
        most=st.integers(1, 12),
    )
    def test_they_are_the_groups_cut_where_they_must_be(self, lengths, lags, most):
        groups = full_groups(lengths, lags=lags) if lengths else full_groups((1,))[:0]
        parts = list(groups.chunks(most))
        names = [part.group_names for part in parts]
        np.testing.assert_array_equal(np.concatenate([*names, []]), groups.group_names)
        sizes = [int(part.lengths.sum()) for part in parts]
        assert all(size <= most or len(part) == 1 for size, part in zip(sizes, parts, strict=True))
        after = [int(part.lengths[0]) for part in parts[1:]]
        assert all(size + more > most for size, more in zip(sizes[:-1], after, strict=True))

    def test_of_at_least_one_element(self):
        with pytest.raises(ExfamError, match="`max_elements` must be a number > 0, got 0"):
            list(full_groups().chunks(0))


class TestMoments:
    @pytest.mark.parametrize("width", [(), (3,)])
    def test_of_pieces_are_those_of_the_whole(self, width):
        table = 100 + np.random.default_rng(0).normal(size=(40, *width))
        mean, spread = moments(np.split(table, [0, 1, 7, 30]))
        np.testing.assert_allclose(mean, table.mean(0), rtol=1e-14)
        np.testing.assert_allclose(spread, table.std(0), rtol=1e-13)

    def test_of_one_piece_to_the_bit(self):
        row = np.random.default_rng(0).normal(size=1001)
        assert moments([row]) == (row.mean(), row.std())

    def test_of_nothing(self):
        assert moments([np.zeros(0)]) == moments([]) == (0, 0)


class TestSampled:
    pieces = np.split(np.arange(20000), [10, 9000])

    def test_all_if_they_are_few(self):
        np.testing.assert_array_equal(
            sampled(self.pieces, total=20000, most=20000), np.arange(20000)
        )
        assert len(sampled([], total=0)) == 0

    def test_a_share_of_each_stretch_in_order(self):
        some = sampled(self.pieces, total=20000, most=2000)
        np.testing.assert_array_equal(some, sampled(self.pieces, total=20000, most=2000))
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
        assert (pieces.n_positions, pieces.position_scale) == (
            whole.n_positions,
            whole.position_scale,
        )
        for one, other in zip(pieces.values, whole.values, strict=True):
            assert (one.center, one.spread) == pytest.approx((other.center, other.spread))
            assert one.initial_eta == other.initial_eta
        for one, other in zip(pieces.attributes, whole.attributes, strict=True):
            assert one.n == other.n
            np.testing.assert_allclose(one.center + one.spread, other.center + other.spread)

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
            (SupportError, {"values": groups.values | {"value": value}}, "2.5 at row 9 .3 of 34 "),
            (ExfamError, {"attributes": groups.attributes | {"genre": genre}}, "below 4, .* got 8"),
            (
                ExfamError,
                {"attributes": groups.attributes | {"gap": gap}},
                r"got \[nan\] at element 13 .2 of 34",
            ),
        ]
        for error, changes, match in wrong:
            with pytest.raises(error, match=match):
                schema.check(groups.with_(**changes))

    def test_rows_and_advice_come_from_all_chunks(self, in_chunks):
        groups = make_groups(lengths=LENGTHS, values={"value": np.ones(34)})
        value = np.ones(34)
        value[[9, 30]] = (7, 2.5)
        groups = groups.with_(values={"value": value}, source_row=100 - np.arange(34))
        with pytest.raises(SupportError, match=r"got 7 at row 91 \(2 of 34.*Code half steps"):
            check_in_support(groups, {"value": Ordinal(5)})

    @pytest.mark.parametrize("family", [Gaussian(), Poisson()])
    def test_a_column_without_values(self, in_chunks, family):
        groups = make_groups(lengths=LENGTHS, observed=np.zeros(34, dtype=bool))
        with pytest.raises(ExfamError, match="`value` must have at least one observed value"):
            Schema.of(groups, families={"value": family})

    def test_targets(self, in_chunks):
        groups = full_groups(LENGTHS, lags=1)
        weight = np.random.default_rng(1).integers(0, 2, groups.n_rows).astype(float)
        result = groups.n_targets, _has_target(groups, None), _has_target(groups, weight)
        assert len(in_chunks) > 20
        role = groups.role == 0
        by_hand = [role[a:b] for a, b in zip(groups.start, groups.stop, strict=True)]
        assert result[0] == role.sum()
        assert result[1].tolist() == [part.any() for part in by_hand]
        assert not result[1].all() and result[1].any()
        assert result[2].tolist() == [
            bool((part * weight[a:b]).sum())
            for part, a, b in zip(by_hand, groups.start, groups.stop, strict=True)
        ]
        np.testing.assert_array_equal(
            _has_target(groups.with_(role=None), None), np.array(LENGTHS) > 0
        )
        assert _has_target(groups[:0], weight).shape == (0,)

    def test_item_frequencies(self, in_chunks):
        groups = full_groups(LENGTHS)
        weight = np.random.default_rng(1).random(groups.n_rows)
        result = log_frequencies(groups, 6, weight=weight)
        assert len(in_chunks) > 5
        rows = (groups.role == 0) & (groups.item >= 0)
        by_hand = 1.0 + np.bincount(groups.item[rows], weights=weight[rows], minlength=6)
        np.testing.assert_allclose(result.exp(), by_hand / by_hand.sum(), rtol=1e-6)

    def test_repeats(self, in_chunks):
        item = np.concatenate([np.arange(n) for n in LENGTHS])
        groups = full_groups(LENGTHS).with_(**bounds(LENGTHS), vocabulary={}, item=item)
        assert not groups.repeats_items() and len(in_chunks) > 5
        item[groups.start[8] + 4] = 1
        group, code, elements = groups.with_(item=item).first_repeat()
        assert (group, code) == (8, 1)
        assert elements.tolist() == [groups.start[8] + 1, groups.start[8] + 4]
