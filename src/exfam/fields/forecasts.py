"""Forecasts: joint draws of the maps to come, given those before."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Shaped

from exfam.checks import check_fraction
from exfam.families import Family
from exfam.fields.data import with_lags, with_times
from exfam.fields.draws import fill_maps
from exfam.fields.networks.assemble import FieldShape
from exfam.fields.units import standardized_maps
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel


@dataclass(frozen=True, eq=False)
class Forecast:
    """Draws of maps to come.

    `times`: their times, as labels where the groups have them; `sites`: the sites' labels, None
    for a site that the model never saw; `draws`: whole futures, in the unit of the value
    """

    times: Shaped[np.ndarray, "steps"]
    sites: Shaped[np.ndarray, "sites"]
    coordinates: Float[np.ndarray, "sites space"]
    draws: Float[np.ndarray, "draws steps sites"]

    @property
    def mean(self) -> Float[np.ndarray, "steps sites"]:
        """Means over the draws."""
        return self.draws.mean(0)

    @property
    def sd(self) -> Float[np.ndarray, "steps sites"]:
        """Standard deviations over the draws."""
        return self.draws.std(0)

    def quantile(self, p: float) -> Float[np.ndarray, "steps sites"]:
        """Quantiles of the draws. Raises ExfamError unless `p` is in [0, 1]."""
        check_fraction("p", p)
        return np.quantile(self.draws, p, axis=0)

    def interval(
        self, level: float = 0.9
    ) -> tuple[Float[np.ndarray, "steps sites"], Float[np.ndarray, "steps sites"]]:
        """Ends of the central interval of probability `level` (default 0.9)."""
        check_fraction("level", level)
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)


def forecast(
    members: Sequence[TwoPartModel],
    groups: Groups,
    *,
    steps: int,
    shape: FieldShape,
    family: Family,
    n: int,
    sweeps: int,
    seed: int,
) -> Forecast:
    """Draws of `steps` maps after the last; what is missing in those it needs is drawn as well.

    `groups` are in the units of the data; `family` and `shape` hold those of the model.
    Raises DataError for groups without elements.
    """
    last = max(groups.group_attributes["time"].tolist(), default=0.0)
    plain = groups.with_(context_start=None, context_stop=None).compact()
    whole = with_times(plain, last + shape.step * np.arange(1, steps + 1))
    recent = whole.group_attributes["time"] > last - (shape.lags + 0.5) * shape.step
    whole = with_lags(whole[recent].compact(), shape.lags, step=shape.step)
    drawn = fill_maps(
        members, standardized_maps(whole, family, shape), n=n, sweeps=sweeps, seed=seed
    )
    future = whole[len(whole) - steps :]
    own = future.elements()
    first = own[: len(own) // steps]
    assert whole.item is not None
    labels = np.array([*whole.vocabulary["item"].tolist(), None], dtype=object)
    names = future.group_names
    values = family.restore(torch.from_numpy(drawn[:, own])).numpy()
    return Forecast(
        times=future.group_attributes["time"] if names is None else names,
        sites=labels[whole.item[first]],
        coordinates=whole.attributes["coordinates"][first],
        draws=values.reshape(n, steps, -1),
    )
