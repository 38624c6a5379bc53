"""What corrections are trained on: bases that saw neither a row's block nor the stopping one."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from exfam.families import StudentT
from exfam.families.base import MAX_LOG_DISPERSION, bounded
from exfam.families.student_t import t_log_prob
from exfam.fields.base.conditionals import GivenOthers, NearColumns
from exfam.fields.base.courses import Clock
from exfam.fields.base.fit import FieldBase
from exfam.fields.base.limits import Evidence, log_cdf
from exfam.fields.base.maps import blocks
from exfam.fields.correction.tokens import Innovations, NearPairs, pairs_of, tokens_of

# Values that corrections are trained on at most, of maps evenly taken.
MOST_VALUES = 60_000
FEWEST_MAPS = 50


class Examples(NamedTuple):
    """Rows with what attention sees of them and their values, in units of anomalies.

    `eta`: the base's Student t parameters; `log_sd`: of the unit of shifts of locations; `limit`:
    where no more is known of a value than that it is at most this, else infinite; None if all are
    known
    """

    tokens: Innovations
    eta: Float[Tensor, "rows targets 3"]
    log_sd: Float[Tensor, "rows targets"]
    value: Float[Tensor, "rows targets"]
    shown: Bool[Tensor, "rows targets"]
    limit: Float[Tensor, "rows targets"] | None = None

    def take(self, index: Tensor) -> "Examples":
        """Some of the rows."""
        return Examples(
            self.tokens.take(index),
            self.eta[index],
            self.log_sd[index],
            self.value[index],
            self.shown[index],
            None if self.limit is None else self.limit[index],
        )

    def nats(self, shifts: Float[Tensor, "rows targets 2"]) -> Float[Tensor, "rows targets"]:
        """Log densities with shifted parameters, log masses of what is censored; else 0."""
        location = self.eta[..., 0] + shifts[..., 0] * self.log_sd.exp()
        log_scale = self.eta[..., 1] + shifts[..., 1]
        log_scale = bounded(log_scale, -MAX_LOG_DISPERSION, MAX_LOG_DISPERSION)
        # Degrees of freedom stay as they are: nothing of them is in the gradient.
        df = StudentT().parameters(self.eta)[2]
        nats = t_log_prob(torch.where(self.shown, self.value, 0.0), location, log_scale, df)
        if self.limit is not None:
            censored, scale = self.limit < torch.inf, log_scale.exp()
            # An infinite limit has no slope, not even one times 0.
            limit = torch.where(censored, self.limit, 0.0)
            nats = torch.where(censored, log_cdf((limit - location) / scale, df), nats)
        return torch.where(self.shown, nats, 0.0)

    def squares(self, shifts: Float[Tensor, "rows targets 2"]) -> Float[Tensor, "rows targets"]:
        """Squared errors of shifted locations, 0 where nothing is shown."""
        location = shifted(self.eta, self.log_sd, shifts)[..., 0]
        return torch.where(self.shown, (self.value - location).square(), 0.0)


def shifted(
    eta: Float[Tensor, "*shape 3"],
    log_sd: Float[Tensor, "*shape"],
    shifts: Float[Tensor, "*shape 2"],
) -> Float[Tensor, "*shape 3"]:
    """Parameters whose location is moved in standard deviations, and scale multiplied."""
    location = eta[..., 0] + shifts[..., 0] * log_sd.exp()
    return torch.stack([location, eta[..., 1] + shifts[..., 1], eta[..., 2]], -1)


def around_of(
    time: Float64[Tensor, "rows"], clock: Clock, flat: Float64[Tensor, "targets axes"]
) -> Float64[Tensor, "rows targets around"]:
    """Of each target: the year's angle and the flat coordinates."""
    waves = clock.waves(time, 1)[:, None, :2].expand(-1, len(flat), -1)
    return torch.cat([waves, flat.expand(len(time), -1, -1)], -1)


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


class JointNear(NamedTuple):
    """Rows are a multivariate t of mean 0: targets are predicted from `n_near` columns, or all.

    `tails`: of their predictions; None for those of the multivariate t
    """

    near: NearColumns
    df: float
    n_near: int | None
    tails: float | None


def cross(base: FieldBase) -> Crossing:
    """Examples of evenly taken maps from bases without one or two blocks of time."""
    view, settings = base.rows(), base.settings
    maps, n_maps, n_targets = view.maps, len(view.maps.panel.time), len(view.targets)
    most = min(n_maps, max(FEWEST_MAPS, MOST_VALUES // n_targets))
    index = torch.linspace(0, n_maps - 1, most).round().long()
    folds = blocks(n_maps)
    fold = torch.stack(folds).long().argmax(0)[index]
    shown = view.evidence(base.courses).shown[index]
    own, share = torch.arange(n_targets), settings.memories or settings.shrinkage
    pairs = pairs_of(shown, view.prior, view.columns, own, n_near=settings.n_near)
    flat = view.columns.points[:n_targets, : maps.sites.n_flat]
    around = around_of(maps.panel.time[index], maps.clock, flat)
    examples = {}
    for j, k in [*combinations(range(len(folds)), 2), *((k, k) for k in range(len(folds)))]:
        left = ~(folds[j] | folds[k])
        courses = maps.take(left).courses(settings.courses)
        evidence = view.evidence(courses).take(index)
        near = view.prior.drawn(view.products(courses, left), share)
        joint = JointNear(near, settings.df, settings.n_near, settings.tails)
        examples[j, k] = examples_of(evidence, joint, own, pairs, around=around)
    return Crossing(index, fold, pairs, examples)


def examples_of(
    evidence: Evidence,
    joint: JointNear,
    targets: Int64[Tensor, "targets"],
    pairs: NearPairs,
    *,
    around: Float64[Tensor, "rows targets around"],
) -> Examples:
    """What attention sees of rows of anomalies; `targets`: their own columns."""
    given = evidence.given(joint.near, joint.n_near)
    tokens = tokens_of(evidence, pairs, joint.near, given, joint.df, around=around)
    return Examples(
        tokens,
        given.student_t(joint.df, joint.tails).float(),
        log_sd_of(given).float(),
        evidence.values[:, targets].float(),
        evidence.shown[:, targets],
        _limit(evidence, targets),
    )


def _limit(
    evidence: Evidence, targets: Int64[Tensor, "targets"]
) -> Float[Tensor, "rows targets"] | None:
    if evidence.censored is None or evidence.limit is None:
        return None
    limit = torch.where(evidence.censored, evidence.limit, torch.inf)
    return limit[:, targets].float()


def log_sd_of(given: GivenOthers) -> Float64[Tensor, "rows targets"]:
    """The Gaussian's standard deviation, which shifts of locations are in units of."""
    return 0.5 * given.variance.clamp_min(1e-12).log()


def _joined(parts: list[Examples]) -> Examples:
    tokens = Innovations(*(_cat(part) for part in zip(*(p.tokens for p in parts), strict=True)))
    rest = (_cat(part) for part in zip(*(part[1:] for part in parts), strict=True))
    return Examples(tokens, *rest)


def _cat(parts: Sequence[Tensor | None]) -> Any:
    """Parts one after the other, None if they are."""
    some = [part for part in parts if part is not None]
    return torch.cat(some) if some else None
