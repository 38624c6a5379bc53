"""Multivariate Student t: each value given the others shown, leave-one-out, of any pattern."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from exfam.fields.base.memories import remembered

# Entries of the matrices that are worked on at once: bounds memory.
MOST_ENTRIES = 2**22
# Columns up to which a factorization takes less time than what it takes to call for it.
FEW_COLUMNS = 64
# Beyond, a t is a Gaussian.
MOST_DF = 1e6
# Of an anomaly: what rounding leaves where one value is a function of others.
LEAST_VARIANCE = 1e-12

Rows = Float64[Tensor, "rows columns"]
Shown = Bool[Tensor, "rows columns"]
Covariance = Float64[Tensor, "columns columns"]
OfTargets = Float64[Tensor, "rows targets"]
Targets = Int64[Tensor, "targets"]
Near = Int64[Tensor, "targets near"]


class GivenOthers(NamedTuple):
    """Of each target given the others shown, all of mean 0 and some covariance.

    `mean`, `variance`: of a Gaussian; `squares`: x' C^-1 x of the values given; `number`: how many
    """

    mean: OfTargets
    variance: OfTargets
    squares: OfTargets
    number: OfTargets

    def student_t(self, df: float, tails: float | None = None) -> Float64[Tensor, "*shape 3"]:
        """Parameters of Student t distributions where all are multivariate t with `df`.

        scale^2 = v (df - 2 + squares) / (df + number), with df + number degrees of freedom: what is
        given says how wild the row is. `tails`: degrees of freedom instead, of the same variance
        """
        total = df + self.number
        stretch = ((df - 2) + self.squares) / total
        log_scale = 0.5 * (self.variance.clamp_min(LEAST_VARIANCE) * stretch).log()
        eta = torch.stack([self.mean, log_scale, (total - 2).log()], -1)
        return eta if tails is None else with_tails(eta, tails)


def with_tails(eta: Float64[Tensor, "*shape 3"], tails: float) -> Float64[Tensor, "*shape 3"]:
    """Student t distributions of the same mean and variance with other degrees of freedom."""
    location, log_scale, log_excess = eta.unbind(-1)
    excess = torch.full_like(log_excess, tails - 2)
    wider = (2 / log_excess.exp()).log1p() - (2 / excess).log1p()
    return torch.stack([location, log_scale + 0.5 * wider, excess.log()], -1)


def nearest_columns(
    covariance: Covariance, targets: Targets, *, most: int
) -> Int64[Tensor, "targets near"]:
    """The columns of the largest |correlation| with each target, itself left out; best first."""
    spread = covariance.diagonal().sqrt()
    strength = (covariance[targets] / spread).abs()
    strength[torch.arange(len(targets)), targets] = -1.0
    return strength.topk(min(most, strength.shape[1] - 1), dim=1).indices


def given_all(
    values: Rows,
    shown: Shown,
    covariance: Covariance,
    targets: Targets,
    *,
    noise: Rows | None = None,
) -> GivenOthers:
    """Each target given all others that are shown; one inverse per pattern.

    `noise`: variances by which values may be off. A value counts as 1 / (1 + noise) of one.
    """
    out = [torch.zeros(len(values), len(targets)).to(values) for _ in range(4)]
    values = torch.where(shown, values, 0.0)
    for known, rows in pattern_parts(shown, noise):
        off = None if noise is None else noise[rows[: len(known)]]
        found = _some_all(values[rows], known, covariance, targets, off)
        for whole, part in zip(out, found, strict=True):
            whole[rows] = part
    return GivenOthers(*out)


def _some_all(
    values: Float64[Tensor, "some columns"],
    known: Bool[Tensor, "patterns columns"],
    covariance: Covariance,
    targets: Targets,
    noise: Float64[Tensor, "patterns columns"] | None,
) -> GivenOthers:
    """Of rows of one pattern, or of as many patterns as rows."""
    x, is_shown = values.view(len(known), -1, values.shape[1]), known[:, targets]
    if len(known) == 1 and not bool(is_shown.any()):
        return _some_hidden(values, known[0], covariance, targets, noise)
    off = torch.zeros_like(known, dtype=values.dtype) if noise is None else noise
    inverse = inverse_of_known(covariance, known, off)
    shared, solved = covariance[targets], x @ inverse
    total = (solved * x).sum(-1, keepdim=True)
    pivot = torch.where(is_shown, inverse.diagonal(dim1=1, dim2=2)[:, targets], 1.0)
    weights = shared @ inverse
    left = covariance.diagonal()[targets] - (weights * shared).sum(-1)
    # A value's own weight is 0, not what rounding leaves of it.
    others = -inverse[:, targets] / pivot[..., None]
    others[:, torch.arange(len(targets)), targets] = 0.0
    mean = x @ torch.where(is_shown[..., None], others, weights).mT
    of_target = solved[..., targets].square() / pivot[:, None]
    squares = total - torch.where(is_shown[:, None], of_target, 0.0)
    variance = torch.where(is_shown, 1 / pivot - off[:, targets], left)
    count = torch.where(known, 1 / (1 + off), 0.0)
    number = count.sum(1, keepdim=True) - count[:, targets]
    alike = (part[:, None].expand_as(mean) for part in (variance, number))
    variance, number = (part.flatten(0, 1) for part in alike)
    return GivenOthers(mean.flatten(0, 1), variance, squares.flatten(0, 1), number)


def _some_hidden(
    values: Float64[Tensor, "some columns"],
    known: Bool[Tensor, "columns"],
    covariance: Covariance,
    targets: Targets,
    noise: Float64[Tensor, "one columns"] | None,
) -> GivenOthers:
    """Of rows of one pattern that shows no target: a factor does in place of the inverse."""
    own = known.nonzero()[:, 0]
    of_own = covariance.index_select(0, own)  # several times as fast as an index
    off = torch.zeros_like(of_own[:, 0]) if noise is None else noise[0, own]
    factor = torch.linalg.cholesky(of_own[:, own] + torch.diag_embed(off))
    both = torch.cat([of_own[:, targets], values[:, own].T], 1)
    both = torch.linalg.solve_triangular(factor, both, upper=False)
    shared, solved = both[:, : len(targets)], both[:, len(targets) :]
    variance = covariance.diagonal()[targets] - shared.square().sum(0)
    squares, number = solved.square().sum(0)[:, None], (1 / (1 + off)).sum()
    mean = solved.T @ shared
    return GivenOthers(mean, *(part.expand_as(mean) for part in (variance, squares, number)))


def inverse_of_known(
    covariance: Covariance,
    known: Bool[Tensor, "patterns columns"],
    noise: Float64[Tensor, "patterns columns"] | None = None,
) -> Float64[Tensor, "patterns columns columns"]:
    """The inverse of the known columns' covariances of each pattern, 0 in all others."""
    both = known[:, :, None] & known[:, None]
    total = covariance if noise is None else covariance + torch.diag_embed(noise)
    eye = torch.eye(len(covariance)).to(covariance)
    factor = torch.linalg.cholesky(torch.where(both, total, eye))
    return torch.where(both, torch.cholesky_inverse(factor), 0.0)


class NearCovariances(NamedTuple):
    """Of some columns near each target: among them, and with the target."""

    block: Float64[Tensor, "patterns targets used used"]
    shared: Float64[Tensor, "patterns targets used"]


@runtime_checkable
class NearColumns(Protocol):
    """The columns that targets may be predicted from, best first, and covariances among them."""

    @property
    def columns(self) -> Near:
        """The columns of each target."""

    @property
    def variance(self) -> Float64[Tensor, "targets"]:
        """Of the targets."""

    def take(self, targets: Targets) -> "NearColumns":
        """Of some of the targets."""

    def drawn(self, products: Tensor, share: float) -> "NearColumns":
        """Of mean products, drawn to these covariances by a share."""

    def among(self, first: Int64[Tensor, "patterns targets used"]) -> NearCovariances:
        """Covariances among some of each target's columns, by where they are in `columns`."""


class OfMatrix(NamedTuple):
    """Near columns whose covariances are in one matrix of all columns.

    `n_maps`: of the products that give each site a memory of its own; 0 if the kernel's is for all
    """

    covariance: Covariance
    targets: Targets
    columns: Near
    n_maps: int = 0

    @property
    def variance(self) -> Float64[Tensor, "targets"]:
        return self.covariance.diagonal()[self.targets]

    def take(self, targets: Targets) -> "OfMatrix":
        return self._replace(targets=self.targets[targets], columns=self.columns[targets])

    def drawn(self, products: Tensor, share: float) -> "OfMatrix":
        prior = self.covariance
        if self.n_maps:
            prior = remembered(products, prior, n_sites=len(self.targets), n_maps=self.n_maps)
        return self._replace(covariance=(1 - share) * products + share * prior)

    def among(self, first: Int64[Tensor, "patterns targets used"]) -> NearCovariances:
        index = self.columns.expand(len(first), -1, -1).gather(-1, first)
        block = self.covariance[index[..., :, None], index[..., None, :]]
        return NearCovariances(block, self.covariance[self.targets[:, None], index])


class OfBlocks(NamedTuple):
    """Near columns whose covariances each target has a matrix of: its own comes first."""

    block: Float64[Tensor, "targets all all"]
    columns: Near

    @property
    def variance(self) -> Float64[Tensor, "targets"]:
        return self.block[:, 0, 0]

    def take(self, targets: Targets) -> "OfBlocks":
        if _follow_each_other(targets):
            first, stop = int(targets[0]), int(targets[-1]) + 1
            return OfBlocks(self.block[first:stop], self.columns[first:stop])
        return OfBlocks(self.block[targets], self.columns[targets])

    def drawn(self, products: Tensor, share: float) -> "OfBlocks":
        return self._replace(block=(1 - share) * products + share * self.block)

    def among(self, first: Int64[Tensor, "patterns targets used"]) -> NearCovariances:
        n = first.shape[-1]
        if len(first) == 1 and bool((first == torch.arange(n)).all()):
            # The first ones themselves: nothing to copy.
            return NearCovariances(
                self.block[None, :, 1 : n + 1, 1 : n + 1], self.block[None, :, 0, 1 : n + 1]
            )
        at, target = first + 1, torch.arange(len(self.block))[:, None]
        block = self.block[target[..., None], at[..., :, None], at[..., None, :]]
        return NearCovariances(block, self.block[target, 0, at])


def _follow_each_other(index: Targets) -> bool:
    """Whether a view holds them."""
    return len(index) > 0 and bool((index.diff() == 1).all())


def given_near(
    values: Rows, shown: Shown, near: NearColumns, *, n_used: int, noise: Rows | None = None
) -> GivenOthers:
    """Each target given the first `n_used` of its columns that are shown.

    `noise`: variances by which values may be off. A value counts as 1 / (1 + noise) of one.
    """
    n_used = min(n_used, near.columns.shape[1])
    found = list(patterns(shown, noise))
    several = len(found) > max(1, len(shown) // 4)
    if several:
        found = [(shown, torch.arange(len(shown)))]
    longest = 1 if several else max((len(rows) for _, rows in found), default=1)
    values = torch.where(shown, values, 0.0)
    n_targets = len(near.columns)
    out = [torch.zeros(len(values), n_targets).to(values) for _ in range(4)]
    targets_at_once = max(1, MOST_ENTRIES // ((n_used + 1) * max(n_used + 1, longest)))
    for targets in torch.arange(n_targets).split(targets_at_once):
        some = near.take(targets) if len(targets) < n_targets else near
        at_once = max(1, MOST_ENTRIES // max(1, len(targets) * (n_used + 1) ** 2))
        for known, rows in found:
            for part in rows.split(at_once) if several else (rows,):
                of_part = some_near(
                    values[part],
                    shown[part] if several else known[None],
                    some,
                    n_used=n_used,
                    noise=None if noise is None else noise[part if several else part[:1]],
                )
                for whole, numbers in zip(out, of_part, strict=True):
                    whole[part[:, None], targets] = numbers
    return GivenOthers(*out)


def some_near(
    values: Float64[Tensor, "some columns"],
    known: Bool[Tensor, "patterns columns"],
    near: NearColumns,
    *,
    n_used: int,
    noise: Float64[Tensor, "patterns columns"] | None = None,
) -> GivenOthers:
    """Of rows of one pattern, or of as many patterns as rows."""
    first, used = first_shown(known, near.columns, n_used=n_used)
    index = near.columns.expand(len(known), -1, -1).gather(-1, first)
    block, shared = near.among(first)
    eye = torch.eye(n_used).to(values)
    count = used.double()
    if noise is not None:
        off = noise[torch.arange(len(known))[:, None, None], index]
        block, count = block + torch.diag_embed(off), count / (1 + off)
    both = used[..., :, None] & used[..., None, :]
    factor = torch.linalg.cholesky(torch.where(both, block, eye))
    shared = torch.where(used, shared, 0.0)
    # One pattern has a right-hand side for each of its rows, several have one each.
    if len(known) == 1:
        x = torch.where(used, values[:, index[0]], 0.0).permute(1, 2, 0)[None]
    else:
        x = torch.where(used, values[torch.arange(len(values))[:, None, None], index], 0.0)
        x = x[..., None]
    white = torch.linalg.solve_triangular(
        factor, torch.cat([shared[..., None], x], -1), upper=False
    )
    own, others = white[..., :1], white[..., 1:]
    mean, squares = (own * others).sum(-2), others.square().sum(-2)
    variance = near.variance - own[..., 0].square().sum(-1)
    if len(known) == 1:
        mean, squares = mean[0].T, squares[0].T
    else:
        mean, squares = mean[..., 0], squares[..., 0]
    number = count.sum(-1)
    return GivenOthers(mean, variance.expand_as(mean), squares, number.expand_as(mean))


def first_shown(
    shown: Bool[Tensor, "patterns columns"], near: Near, *, n_used: int
) -> tuple[Int64[Tensor, "patterns targets used"], Bool[Tensor, "patterns targets used"]]:
    """Where in `near` the first columns that are shown are, and which of them there are."""
    rank = torch.where(shown[:, near], torch.arange(near.shape[1]), near.shape[1])
    first = rank.topk(n_used, dim=-1, largest=False, sorted=True).values
    return first.clamp_max(near.shape[1] - 1), first < near.shape[1]


def patterns(
    shown: Shown, noise: Rows | None = None
) -> Iterator[tuple[Bool[Tensor, "columns"], Int64[Tensor, "_"]]]:
    """What is shown, once for each way in which rows show it and how noisily, and these rows."""
    kinds = shown if noise is None else torch.cat([shown.to(noise), noise], 1)
    kind, count = torch.unique(kinds, dim=0, return_inverse=True, return_counts=True)[1:]
    rows = torch.argsort(kind, stable=True).split(count.tolist())
    return ((shown[part[0]], part) for part in rows)


class PatternPart(NamedTuple):
    """Some rows, and the one way in which all show values, or the way of each."""

    known: Bool[Tensor, "patterns columns"]
    rows: Int64[Tensor, "some"]


def pattern_parts(shown: Shown, noise: Rows | None = None) -> list[PatternPart]:
    """Rows of one pattern together; where most of few columns differ, many with a pattern each."""
    found, n_columns = list(patterns(shown, noise)), shown.shape[1]
    if n_columns > FEW_COLUMNS or len(found) <= max(1, len(shown) // 4):
        return [PatternPart(known[None], rows) for known, rows in found]
    parts = torch.arange(len(shown)).split(MOST_ENTRIES // n_columns**2)
    return [PatternPart(shown[rows], rows) for rows in parts]
