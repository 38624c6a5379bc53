"""How much wider or narrower predictions should have been, judged by values held out."""

import scipy.optimize
import torch
from jaxtyping import Float
from torch import Tensor

from exfam.families import Family

# Scales are changed by a factor of e at most.
MOST = 1.0


def best_shift(
    family: Family, eta: Float[Tensor, "rows params"], value: Float[Tensor, "rows"]
) -> float:
    """What to add to the first dispersion output of all rows, so that the values are likeliest.

    Of a scale it is the logarithm of the factor. 0 for a family without dispersion, or no rows.

    >>> from exfam.families import Gaussian
    >>> value = torch.tensor([-2.0, 2.0])
    >>> round(best_shift(Gaussian(), torch.zeros(2, 2), value), 3)
    0.693
    """
    if not family.n_dispersion or not len(value):
        return 0.0
    eta, value = eta.double(), value.double()
    column = torch.zeros(family.n_params, dtype=eta.dtype)
    column[family.n_params - family.n_dispersion] = 1.0

    def nats(shift: float) -> float:
        return -float(family.log_prob(value, eta + shift * column).mean())

    fit = scipy.optimize.minimize_scalar(nats, bounds=(-MOST, MOST), method="bounded")
    return float(fit.x) if fit.fun < nats(0.0) else 0.0
