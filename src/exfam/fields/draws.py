"""Joint draws of missing values, forecasts made of them, and which value to measure next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64, Shaped

from exfam.checks import check_fraction
from exfam.columns.results import PlottedResult, in_rows
from exfam.estimator.evaluate import value_parameters
from exfam.families.mixtures import Mixture
from exfam.fields.data.facts import is_observed
from exfam.groups import CONTEXT, TARGET, Batch, Groups
from exfam.likelihoods.two_part import TwoPartModel

Members = Sequence[TwoPartModel]
Elements = Int64[np.ndarray, "_"]
Draws = Float[np.ndarray, "draws elements"]
StepsBySites = Float[np.ndarray, "steps sites"]


@runtime_checkable
class DrawsMaps(Protocol):
    """A part that draws what is missing on a map together."""

    def joint_levels(
        self, batch: Batch, *, generator: torch.Generator
    ) -> Float64[torch.Tensor, "batch length"]:
        """Probabilities below joint draws, each in its own distribution; else 1/2."""


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(PlottedResult):
    """Draws of maps to come, whole futures in the unit of the value.

    `sites`: the sites' labels, None for a site that the model never saw
    """

    times: Shaped[np.ndarray, "steps"]
    sites: Shaped[np.ndarray, "sites"]
    coordinates: Float[np.ndarray, "sites space"]
    draws: Float[np.ndarray, "draws steps sites"]

    picture = "forecast_fan"

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `time`, `site`, `mean`, `sd`, `low`, `high`: the ends of 90 % intervals."""
        low, high = self.interval()
        columns = {"mean": self.mean, "sd": self.sd, "low": low, "high": high}
        return in_rows({"time": self.times, "site": self.sites}, columns)

    @property
    def mean(self) -> StepsBySites:
        """Means over the draws."""
        return self.draws.mean(0)

    @property
    def sd(self) -> StepsBySites:
        """Standard deviations over the draws."""
        return self.draws.std(0)

    def quantile(self, p: float) -> StepsBySites:
        """Quantiles of the draws. Raises ExfamError unless `p` is in [0, 1)."""
        check_fraction("p", p)
        return np.quantile(self.draws, p, axis=0)

    def interval(self, level: float = 0.9) -> tuple[StepsBySites, StepsBySites]:
        """Ends of the central interval of probability `level`."""
        check_fraction("level", level)
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)


@dataclass(frozen=True, eq=False, repr=False)
class Sensing(PlottedResult):
    """How much measuring each missing value would say about the others; NaN where none is missing.

    `reduction`: by how much the mean predictive variance at the other missing values of the same
        time would fall, one per row, in the squared unit of the value
    `variance`: predictive variance of each missing value as things are
    """

    reduction: Float[np.ndarray, "rows"]
    variance: Float[np.ndarray, "rows"]

    picture = "sensing_bars"

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `row`, `reduction`, `variance` of the missing values, in the order of ranking."""
        rows = self.ranking
        columns = {"reduction": self.reduction, "variance": self.variance}
        return {"row": rows} | {name: column[rows] for name, column in columns.items()}

    @property
    def ranking(self) -> Int64[np.ndarray, "missing"]:
        """Rows with a missing value, the largest reduction first; equals by row."""
        rows = np.flatnonzero(~np.isnan(self.reduction))
        return rows[np.argsort(-self.reduction[rows], kind="stable")]


def fill_maps(members: Members, groups: Groups, *, n: int, sweeps: int, seed: int) -> Draws:
    """`n` fillings of the missing values of all maps, in increasing time: later maps see them."""
    generator = torch.Generator().manual_seed(seed)
    (values,) = groups.values.values()
    drawn = np.repeat(values[None].astype(np.float64), n, axis=0)
    observed = is_observed(groups).copy()
    together = len(members) == 1 and isinstance(members[0].value_part, DrawsMaps)
    for g in np.argsort(groups.group_attributes["time"], kind="stable").tolist():
        own = np.arange(groups.start[g], groups.stop[g])
        missing, maps = own[~observed[own]], groups[g]
        if not len(missing):
            continue
        seen, rounds = observed.copy(), sweeps + 1
        if together:
            drawn[:, missing] = _drawn_together(members, maps, drawn, seen, missing, generator)
            seen[missing], rounds = True, sweeps
        for _ in range(rounds):
            for element in missing.tolist():
                seen[element] = False
                mixture = _predicted(members, maps, drawn, seen, np.array([element]))
                drawn[:, element] = mixture.sample(generator).numpy()
                seen[element] = True
        observed[missing] = True
    return drawn


def next_sites(members: Members, groups: Groups, rows: Elements, *, n: int, seed: int) -> Sensing:
    """The reductions of all missing values of all maps, each averaged over `n` draws of it."""
    generator = torch.Generator().manual_seed(seed)
    everywhere = is_observed(groups)
    flat = np.full((2, groups.n_rows), np.nan)
    for g in range(len(groups)):
        own = np.arange(groups.start[g], groups.stop[g])
        if not everywhere[own].all():
            # Columns of its own: they are copied for every value that might be measured.
            maps = groups[g].compact()
            missing = np.flatnonzero(~is_observed(maps)[: len(own)])
            flat[:, own[missing]] = _reductions(members, maps, missing, n, generator)
    out = np.full((2, len(rows)), np.nan)
    out[:, rows] = flat[:, groups.elements()]
    return Sensing(*out)


def _reductions(
    members: Members, maps: Groups, missing: Elements, n: int, generator: torch.Generator
) -> Float[np.ndarray, "2 missing"]:
    (values,) = maps.values.values()
    plain, observed = values[None].astype(np.float64), is_observed(maps)
    mixture = _predicted(members, maps, plain, observed, missing)
    variance = mixture.variance().double().numpy()
    reduction = np.zeros(len(missing))
    draws = np.stack([mixture.sample(generator).double().numpy() for _ in range(n)])
    for k, element in enumerate(missing.tolist()):
        others = np.delete(missing, k)
        if not len(others):
            continue
        measured, seen = np.repeat(plain, n, axis=0), observed.copy()
        measured[:, element], seen[element] = draws[:, k], True
        after = _predicted(members, maps, measured, seen, others)
        reduction[k] = np.delete(variance, k).mean() - float(after.variance().double().mean())
    return np.stack([reduction, variance])


def _drawn_together(
    members: Members,
    maps: Groups,
    values: Draws,
    observed: np.ndarray,
    targets: Elements,
    generator: torch.Generator,
) -> Float[np.ndarray, "draws targets"]:
    """Each target's own distribution at the probabilities of one joint draw."""
    part: Any = members[0].value_part  # nn.Module's attributes have no better type
    copies, rows = copies_of_map(maps, values, observed, targets=targets)
    batch = copies.pad(np.arange(len(copies)))
    levels = torch.zeros(copies.n_rows).double()
    drawn = part.joint_levels(batch, generator=generator)
    levels[batch.element[batch.present]] = drawn[batch.present]
    at = _in_copies(rows, targets, len(values))
    own = _at(members, copies, at)
    (eta,) = own.eta
    return own.family.quantile(levels[at], eta).reshape(len(values), -1).numpy()


def _predicted(
    members: Members, maps: Groups, values: Draws, observed: np.ndarray, targets: Elements
) -> Mixture:
    copies, rows = copies_of_map(maps, values, observed, targets=targets)
    return _at(members, copies, _in_copies(rows, targets, len(values)))


def _in_copies(rows: Elements, targets: Elements, n: int) -> Elements:
    """Where the targets are among `n` copies of the rows."""
    return (np.searchsorted(rows, targets) + len(rows) * np.arange(n)[:, None]).ravel()


def _at(members: Members, groups: Groups, elements: Elements) -> Mixture:
    """What is predicted at some elements."""
    (eta,) = value_parameters(members, groups).values()
    (family,) = members[0].families.values()
    return Mixture(family, eta[:, elements].double())


def copies_of_map(
    maps: Groups, values: Draws, observed: np.ndarray, *, targets: Elements
) -> tuple[Groups, Elements]:
    """One map and what it sees, once for each row of `values`; and the elements that it holds."""
    begin, end = maps.context_start, maps.context_stop
    bounds = [(maps.start, maps.stop)]
    if begin is not None and end is not None:
        bounds += list(zip(begin.T, end.T, strict=True))
    rows = np.unique(np.concatenate([np.arange(low[0], high[0]) for low, high in bounds]))
    n, size = len(values), len(rows)
    offset = size * np.arange(n)

    def start(bound: np.ndarray) -> np.ndarray:
        """Bounds among `rows`, in every copy; the ranges of a map are gapless among them."""
        return offset.reshape(-1, *[1] * (bound.ndim - 1)) + np.searchsorted(rows, bound)

    def stop(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.where(high == low, start(low), start(high - 1) + 1)

    (column,) = maps.values
    copies = Groups(
        start=start(maps.start),
        stop=stop(maps.start, maps.stop),
        item=None if maps.item is None else np.tile(maps.item[rows], n),
        values={column: values[:, rows].ravel()},
        attributes={name: np.tile(a[rows], (n, 1)) for name, a in maps.attributes.items()},
        group_attributes={
            name: np.repeat(a, n, axis=0) for name, a in maps.group_attributes.items()
        },
        position=None if maps.position is None else np.tile(maps.position[rows], (n, 1)),
        observed=np.tile(observed[rows], n),
        role=np.tile(np.where(np.isin(rows, targets), TARGET, CONTEXT), n),
        context_start=None if begin is None else start(begin),
        context_stop=None if begin is None or end is None else stop(begin, end),
        vocabulary=maps.vocabulary,
    )
    return copies, rows
