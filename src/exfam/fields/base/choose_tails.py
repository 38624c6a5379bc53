"""Tails of predicted values, where those that a multivariate t gives them are too light."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from exfam.fields.base.compare import FEWEST_BLOCKS, MAPS_OF_A_BLOCK, gain_by_block
from exfam.fields.base.conditionals import GivenOthers
from exfam.fields.base.limits import nats_of
from exfam.fields.base.trials import (
    DEGREES,
    FEWEST_DEGREES_OF_CENSORED,
    HeldOutMaps,
    Settings,
    Trials,
)

TAILS = (80.0, 30.0, 20.0, 14.0, 10.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0)
# Where zeros are censored, fewer degrees would leave some values without a variance.
FEWEST_TAILS_OF_CENSORED = 8.0
# Maps below which held-out blocks say nothing of tails, and values that they are tried on at most.
FEWEST_MAPS, MOST_VALUES = 20, 60_000


class HeldOutValues(NamedTuple):
    """Values held out, each with what others say of it and its map's number.

    `censored`: of which no more is known than that they are at most `limit`
    """

    value: Float64[Tensor, "values"]
    given: GivenOthers
    map: Int64[Tensor, "values"]
    censored: Bool[Tensor, "values"]
    limit: Float64[Tensor, "values"]

    def nats(self, df: float, tails: float | None) -> Float64[Tensor, "values"]:
        """Log densities in units of anomalies; log probabilities of what is censored."""
        return nats_of(self.value, self.given.student_t(df, tails), self.censored, self.limit)


def choose_tails(trials: Trials, settings: Settings) -> Settings:
    """The settings, with tails of their own where held-out values want them by more than chance.

    Degrees of freedom of a multivariate t add up over the values around, so that predictions from
    many are nearly Gaussian: right where a map is wild as a whole, wrong where single values are.
    """
    values = _held_out(trials.given(settings.shrinkage, settings.n_near))
    n_maps = len(values.map.unique())
    if n_maps < FEWEST_MAPS:
        return settings
    has_limit = bool(values.censored.any())
    degrees = [df for df in DEGREES if not has_limit or df >= FEWEST_DEGREES_OF_CENSORED]
    able = [tails for tails in TAILS if not has_limit or tails >= FEWEST_TAILS_OF_CENSORED]
    df = settings.df
    tails = _likeliest(values, [(df, tails) for tails in able])[1]
    df = _likeliest(values, [(df, tails) for df in degrees])[0]
    tails = _likeliest(values, [(df, tails) for tails in able])[1]
    added = values.nats(df, tails) - values.nats(settings.df, None)
    if not _is_sure(added, values.map, n_maps):
        return settings
    return settings._replace(df=df, tails=tails)


def _likeliest(values: HeldOutValues, pairs: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The degrees of freedom and the tails under which values are likeliest."""
    return max(pairs, key=lambda pair: float(values.nats(*pair).sum()))


def _is_sure(added: Float64[Tensor, "values"], of_map: Int64[Tensor, "values"], n: int) -> bool:
    """Whether the gain is above zero by more than its error by blocks of maps."""
    of_map = of_map.unique(return_inverse=True)[1]
    block = of_map // max(1, min(MAPS_OF_A_BLOCK, n // FEWEST_BLOCKS))
    return gain_by_block(added, torch.ones_like(added), block, 0.0).low > 0


def _held_out(folds: Iterable[tuple[HeldOutMaps, GivenOthers]]) -> HeldOutValues:
    """The values of evenly taken maps."""
    parts, n_before = list[HeldOutValues](), 0
    for fold, given in folds:
        own = fold.evidence.first(len(fold.log_scale))
        shown = own.shown
        censored = torch.zeros_like(shown) if own.censored is None else own.censored
        limit = torch.zeros_like(own.values) if own.limit is None else own.limit
        row = n_before + torch.arange(len(shown))[:, None].expand_as(shown)
        n_before += len(shown)
        of_shown = GivenOthers(*(part[shown] for part in given))
        parts.append(
            HeldOutValues(own.values[shown], of_shown, row[shown], censored[shown], limit[shown])
        )
    value, of_map, censored, limit = (
        torch.cat([getattr(part, name) for part in parts])
        for name in ("value", "map", "censored", "limit")
    )
    given = GivenOthers(*(torch.cat(part) for part in zip(*(p.given for p in parts), strict=True)))
    kept = of_map % max(1, -(-len(value) // MOST_VALUES)) == 0
    of_kept = GivenOthers(*(part[kept] for part in given))
    return HeldOutValues(value[kept], of_kept, of_map[kept], censored[kept], limit[kept])
