"""What corrections are trained on: bases that saw neither a row's block nor the stopping one."""

from itertools import combinations
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from exfam.families import StudentT
from exfam.fields.base.conditionals import GivenOthers
from exfam.fields.base.courses import Clock
from exfam.fields.base.fit import FieldBase
from exfam.fields.base.folds import (
    Joint,
    Maps,
    Rows,
    Shown,
    Sites,
    blocks,
    candidates,
    given_shown,
)
from exfam.fields.base.limits import Evidence
from exfam.fields.correction.tokens import Innovations, NearPairs, pairs_of, tokens_of

# Values that corrections are trained on at most, of maps evenly taken.
MOST_VALUES = 60_000
FEWEST_MAPS = 50


class Examples(NamedTuple):
    """Rows with what attention sees of them and their values, in units of anomalies.

    `eta`: the base's Student t parameters; `log_sd`: of the unit of shifts of locations
    """

    tokens: Innovations
    eta: Float[Tensor, "rows targets 3"]
    log_sd: Float[Tensor, "rows targets"]
    value: Float[Tensor, "rows targets"]
    shown: Bool[Tensor, "rows targets"]

    def take(self, index: Tensor) -> "Examples":
        """Some of the rows."""
        tokens = Innovations(*(part[index] for part in self.tokens))
        return Examples(tokens, *(part[index] for part in self[1:]))

    def nats(self, shifts: Float[Tensor, "rows targets 2"]) -> Float[Tensor, "rows targets"]:
        """Log densities with shifted parameters, 0 where nothing is shown."""
        nats = StudentT().log_prob(self.value, shifted(self.eta, self.log_sd, shifts))
        return torch.where(self.shown, nats, 0.0)


def shifted(
    eta: Float[Tensor, "*shape 3"],
    log_sd: Float[Tensor, "*shape"],
    shifts: Float[Tensor, "*shape 2"],
) -> Float[Tensor, "*shape 3"]:
    """Parameters whose location is moved in standard deviations, and scale multiplied."""
    location = eta[..., 0] + shifts[..., 0] * log_sd.exp()
    return torch.stack([location, eta[..., 1] + shifts[..., 1], eta[..., 2]], -1)


def around_of(
    time: Float64[Tensor, "rows"], clock: Clock, sites: Sites
) -> Float64[Tensor, "rows targets around"]:
    """Of each target: the year's angle and the flat coordinates."""
    waves = clock.waves(time, 1)[:, None, :2].expand(-1, len(sites.terms), -1)
    flat = sites.points[:, : sites.n_flat].expand(len(time), -1, -1)
    return torch.cat([waves, flat], -1)


class Crossing(NamedTuple):
    """Rows of some maps, the blocks of time they are in, and examples from bases without blocks.

    `examples[j, k]`: of all rows, from a base that saw neither block j nor block k
    """

    row: Int64[Tensor, "rows"]
    fold: Int64[Tensor, "rows"]
    pairs: NearPairs
    examples: dict[tuple[int, int], Examples]

    def training(self, k: int) -> tuple[Examples, Int64[Tensor, "some"]]:
        """Examples outside block k, from bases without their own block and k, and their rows."""
        rows, parts = [], []
        for j in self.fold.unique().tolist():
            if j != k:
                of_block = (self.fold == j).nonzero()[:, 0]
                rows.append(of_block)
                parts.append(self.examples[min(j, k), max(j, k)].take(of_block))
        return _joined(parts), torch.cat(rows)

    def stopping(self, k: int) -> tuple[Examples, Int64[Tensor, "some"]]:
        """Examples of block k from a base without it, and their rows."""
        rows = (self.fold == k).nonzero()[:, 0]
        return self.examples[k, k].take(rows), rows


def cross(maps: Maps, base: FieldBase) -> Crossing:
    """Examples of evenly taken maps from bases without one or two blocks of time."""
    n_maps, n_sites = len(maps.panel.time), len(maps.sites.terms)
    prior = base.kernel.of(maps.sites.columns)
    most = min(n_maps, max(FEWEST_MAPS, MOST_VALUES // n_sites))
    index = torch.linspace(0, n_maps - 1, most).round().long()
    folds = blocks(n_maps)
    fold = torch.stack(folds).long().argmax(0)[index]
    shown, columns = maps.rows(base.courses)[1][index], maps.sites.columns
    near = candidates(prior, maps.sites.own)
    pairs = pairs_of(shown, prior, columns, near, n_near=base.settings.n_near)
    around = around_of(maps.panel.time[index], maps.clock, maps.sites)
    examples = {}
    for j, k in [*combinations(range(len(folds)), 2), *((k, k) for k in range(len(folds)))]:
        left = ~(folds[j] | folds[k])
        courses = maps.take(left).courses(base.settings.courses)
        rows, _ = maps.rows(courses)
        joint = base.settings.joint(maps.products(courses, prior, left), prior)
        examples[j, k] = examples_of(rows[index], shown, joint, near, pairs, around=around)
    return Crossing(index, fold, pairs, examples)


def examples_of(
    rows: Rows,
    shown: Shown,
    joint: Joint,
    near: Int64[Tensor, "targets _"],
    pairs: NearPairs,
    *,
    around: Float64[Tensor, "rows targets around"],
) -> Examples:
    """What attention sees of rows of anomalies."""
    targets = torch.arange(len(near))
    given = given_shown(Evidence(rows, shown), joint.covariance, targets, near, n_near=joint.n_near)
    tokens = tokens_of(rows, pairs, joint.covariance, given, joint.df, around=around)
    return Examples(
        tokens,
        given.student_t(joint.df).float(),
        log_sd_of(given).float(),
        rows[:, : len(near)].float(),
        shown[:, : len(near)],
    )


def log_sd_of(given: GivenOthers) -> Float64[Tensor, "rows targets"]:
    """The Gaussian's standard deviation, which shifts of locations are in units of."""
    return 0.5 * given.variance.clamp_min(1e-12).log()


def _joined(parts: list[Examples]) -> Examples:
    tokens = Innovations(
        *(torch.cat(part) for part in zip(*(part.tokens for part in parts), strict=True))
    )
    rest = (torch.cat(part) for part in zip(*(part[1:] for part in parts), strict=True))
    return Examples(tokens, *rest)
