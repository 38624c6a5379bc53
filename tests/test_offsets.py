"""The group offset: equal to the shrunk offset baseline where its numbers are, and no leak."""

import numpy as np
import pytest
import torch

from exfam.efa.networks.parts import GroupOffset
from exfam.efa.networks.shrunk_offsets import fit_shrunk_offset
from exfam.families import Gaussian
from exfam.groups import Groups


def rated():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 7, 30)
    stop = np.cumsum(lengths)
    n = int(stop[-1])
    return Groups(
        start=stop - lengths,
        stop=stop,
        item=rng.integers(0, 5, n),
        values={"stars": rng.normal(3.0, 1.0, n)},
        observed=rng.random(n) > 0.2,
    )


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
def test_equals_the_shrunk_offset_with_its_numbers(direction):
    groups, families = rated(), {"stars": Gaussian(scale=1.0)}
    baseline = fit_shrunk_offset(groups, families, k=2.0, direction=direction, n_items=5)
    offset = GroupOffset(
        {"stars": Gaussian()},
        center=torch.zeros(1),
        slope=torch.ones(1, 1),
        direction=direction,
        n_items=5,
        k=2.0,
    )
    batch = groups.pad(np.arange(len(groups)))
    with torch.no_grad():
        offset.expected.offset.copy_(baseline.item_mean)
        expected = baseline.mean(batch).clamp(baseline.low, baseline.high)
        mean = offset(batch) + offset.expected(batch)
        actual = mean.clamp(baseline.low, baseline.high)
    shown = batch.present
    torch.testing.assert_close(actual[shown], expected[shown])
    assert actual[shown].std() > 0.1


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
def test_own_value_has_no_say(direction):
    groups = Groups(start=[0], stop=[4], item=[0, 1, 2, 3], values={"stars": [1.0, 5.0, 2.0, 4.0]})
    offset = GroupOffset(
        {"stars": Gaussian()},
        center=torch.tensor([3.0]),
        slope=torch.ones(1, 1),
        direction=direction,
    )
    before = offset(groups.pad(np.array([0])))[0, :, 0]
    changed = groups.with_(values={"stars": [1.0, 5.0, 20.0, 4.0]})
    moved = (offset(changed.pad(np.array([0])))[0, :, 0] - before).abs() > 1e-6
    expected = [False, False, False, True] if direction == "causal" else [True, True, False, True]
    assert moved.tolist() == expected


def test_shrinkage_must_be_positive():
    with pytest.raises(ValueError, match="`k` must be a number > 0, got -1"):
        GroupOffset(
            {"stars": Gaussian()},
            center=torch.zeros(1),
            slope=torch.ones(1, 1),
            direction="causal",
            k=-1.0,
        )
