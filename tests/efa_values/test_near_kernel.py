"""Values near each other: a Gaussian process of the residuals."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from jaxtyping import Float64

from exfam import EFA
from exfam.efa.values.cells import ValueCells, points
from exfam.efa.values.fit_near import fit_near
from exfam.efa.values.near_kernel import NearKernel
from exfam.efa.values.values_base import ValueOptions, fit_values
from exfam.families import Gaussian

N_GROUPS, LENGTH = 20, 10


def simulated(*, is_map: bool = False) -> tuple[ValueCells, Float64[np.ndarray, "g n n"]]:
    """Cells of a process in continuous time or on a map, and the covariances of groups."""
    random = np.random.default_rng(0)
    point = np.exp(random.normal(size=(N_GROUPS, LENGTH, 2 if is_map else 1))).cumsum(1)
    distance = np.linalg.norm(point[:, :, None] - point[:, None], axis=-1)
    covariance = np.exp(-distance / 8) + 0.05 * np.eye(LENGTH)
    noise = random.normal(size=(N_GROUPS, LENGTH, 1))
    value = (np.linalg.cholesky(covariance) @ noise).ravel()
    offset, item = np.arange(N_GROUPS + 1) * LENGTH, np.zeros(len(value), dtype=np.int64)
    return ValueCells(offset, item, value, point=point.reshape(-1, point.shape[-1])), covariance


@pytest.mark.parametrize(("causal", "is_map"), [(True, False), (False, True)])
def test_fitted_kernel_predicts_nearly_as_the_process(causal: bool, is_map: bool) -> None:
    cells, covariance = simulated(is_map=is_map)
    kernel = fit_near(cells, cells.value, causal=causal, ordered=not is_map, seed=0)
    assert kernel is not None
    mean, share = kernel.predictions(cells, cells.value, causal=causal)
    value = cells.value.reshape(N_GROUPS, LENGTH)
    if causal:
        root = np.linalg.cholesky(covariance)
        error = np.linalg.solve(root, value[..., None])[..., 0]
        error = error * np.diagonal(root, axis1=1, axis2=2)
    else:
        inverse = np.linalg.inv(covariance)
        error = (inverse @ value[..., None])[..., 0] / np.diagonal(inverse, axis1=1, axis2=2)
    assert np.mean((cells.value - mean) ** 2) < 1.1 * np.mean(error**2) < 0.6
    assert (share > 0).all() and share.min() < 0.5 * share.max()
    own = cells.value.copy()
    own[5] = 100.0
    moved, _ = kernel.predictions(cells, own, causal=causal)
    assert moved[5] == mean[5] and moved[6] != mean[6] and (moved[4] == mean[4]) == causal


def test_seasons_are_found_and_others_are_not() -> None:
    random = np.random.default_rng(0)
    season = np.tile(random.normal(size=(N_GROUPS, 6)), 4).ravel()
    value = season + 0.1 * random.normal(size=len(season))
    offset, item = np.arange(N_GROUPS + 1) * 24, np.zeros(len(value), dtype=np.int64)
    cells = ValueCells(offset, item, value, point=points(np.arange(len(value))))
    kernel = fit_near(cells, value, causal=True, ordered=True, seed=0)
    assert kernel is not None and kernel.period == 6 and 12 in kernel.lags
    error = (value - kernel.predictions(cells, value, causal=True)[0]).reshape(N_GROUPS, 24)
    assert np.square(error[:, 12:]).mean() < 0.05
    noise = random.normal(size=len(value))
    other = fit_near(cells, noise, causal=True, ordered=True, seed=0)
    assert other is not None and other.period == 0


def test_few_cells_and_equal_positions_have_no_kernel() -> None:
    cells, _ = simulated()
    few = cells.take(np.arange(3))
    assert fit_near(few, few.value, causal=True, ordered=True, seed=0) is None
    same = ValueCells(cells.offset, cells.item, cells.value, point=np.zeros((cells.n_cells, 1)))
    assert fit_near(same, same.value, causal=False, ordered=False, seed=0) is None


def test_model_of_places_is_saved_with_its_kernel(tmp_path) -> None:
    cells, _ = simulated(is_map=True)
    assert cells.point is not None
    x, y = cells.point.T
    frame = {"group": cells.group, "x": x, "y": y, "value": cells.value}
    names = {"group": "group", "value": "value", "position": ["x", "y"], "family": "gaussian"}
    model = EFA(**names, max_epochs=1, progress=False).fit(frame)
    assert model.encoding_ == "distance"
    kernel = NearKernel.of_arrays(model.members_[0].value_part.columns[0].base().arrays())
    assert kernel is not None and not len(kernel.lags)
    nats = model.log_prob(frame)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(EFA.load(tmp_path / "model").log_prob(frame), nats)
    order = torch.randperm(len(nats), generator=torch.Generator().manual_seed(0)).numpy()
    shuffled = {name: column[order] for name, column in frame.items()}
    np.testing.assert_allclose(model.log_prob(shuffled), nats[order], atol=1e-4)


@pytest.mark.parametrize("seed", [1, 2, 6])
def test_few_groups_whose_order_says_nothing_have_no_kernel(seed) -> None:
    """It is judged on groups that it was not fitted to: on its own ones it gains here."""
    offset, item = np.arange(0, 151, 5), np.zeros(150, dtype=np.int64)
    point, options = np.tile(np.arange(5.0), 30)[:, None], ValueOptions(rank=0, ordered=True)
    random = np.random.default_rng(seed)
    value = np.repeat(random.normal(size=30), 5) + random.normal(size=150)
    cells = ValueCells(offset, item, value, point=point)
    assert fit_values(cells, 1, Gaussian(), replace(options, near=True)).near is None
