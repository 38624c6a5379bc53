"""An exact Gaussian process by gpytorch: one kernel for all maps, fitted by likelihood.

Anomalies have a Matern 3/2 covariance with a length along each coordinate, times one of steps back,
and noise. Each value is predicted from all others that are shown.
"""

from typing import Any

import numpy as np
import torch
from benchmarks.arena.contenders.fields.gaussian import Rows, Square, chosen
from benchmarks.arena.contenders.fields.local_processes import plane
from benchmarks.arena.fields.data import FieldData
from benchmarks.arena.kind import Contender, Fitted

# Maps whose likelihood a search sums, its steps, and their size.
N_MAPS, N_STEPS, STEP = 40, 60, 0.1


def fit_process(data: FieldData, seed: int) -> Fitted:
    return chosen(data, covariance_of)


def covariance_of(rows: Rows, data: FieldData) -> tuple[Square, dict[str, Any]]:
    """Of all variables, earlier ones last, as some rows are likeliest."""
    from gpytorch.distributions import MultivariateNormal
    from gpytorch.kernels import MaternKernel, ScaleKernel

    sites = plane(data)
    lags = torch.arange(data.lags + 1).repeat_interleave(len(sites)).double()[:, None]
    points = torch.cat([sites.repeat(data.lags + 1, 1), lags], dim=1)
    n_axes = points.shape[1] if data.lags else points.shape[1] - 1
    kernel = ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=n_axes)).double()
    log_noise = torch.tensor(-2.0).double().requires_grad_()
    search = torch.optim.Adam([*kernel.parameters(), log_noise], lr=STEP)
    rows = rows[~np.isnan(rows).all(1)]
    some = rows[np.linspace(0, len(rows) - 1, N_MAPS).round().astype(int)]
    there = [torch.from_numpy(np.flatnonzero(~np.isnan(row))) for row in some]

    def covariance() -> torch.Tensor:
        dense: torch.Tensor = kernel(points[:, :n_axes]).to_dense()
        return dense + log_noise.exp() * torch.eye(len(points)).double()

    for _ in range(N_STEPS):
        search.zero_grad()
        whole, nats = covariance(), torch.zeros(()).double()
        for row, own in zip(some, there, strict=True):
            normal = MultivariateNormal(torch.zeros(len(own)).double(), whole[own][:, own])
            nats = nats - normal.log_prob(torch.from_numpy(row)[own])
        nats.backward()
        search.step()
    lengths = kernel.base_kernel.lengthscale.detach().flatten().tolist()
    settings = {
        "lengths": np.round(lengths, 3).tolist(),
        "noise": round(float(log_noise.detach().exp()), 4),
    }
    return covariance().detach().numpy(), settings


CONTENDERS = {
    "gpytorch-process": Contender(
        label="Gaussian process (gpytorch)", fit=fit_process, needs="gpytorch"
    ),
}
