"""Transition scores of item sequences: what followed the last items elsewhere, recent ones most.

Three kernels count how often item i stands near item j: right after it, within the next 10, and
within 50 on either side, near ones counted more. From a history, kernel k and decay g give

    p_kg(i) = sum over the last 40 items j of w_j (C_k[j, i] + kappa_k pop_i) / (n_k[j] + kappa_k),

w_j proportional to g^lag. They are mixed with the popularity, and sharpened:

    eta_i = a log pop_i + c log(pi_0 pop_i + sum of pi_kg p_kg(i))
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from exfam.efa.base.sets import Where
from exfam.groups import Batch, Groups

# Items of the history that count.
RECENT = 40


class Kernel(NamedTuple):
    """Pairs up to `reach` apart count distance^-power; `prior` counts of popularity are added."""

    reach: int
    power: float
    both_ways: bool
    prior: float
    decays: tuple[float, ...]


KERNELS = (
    Kernel(1, 0.0, False, 10.0, (0.3, 0.8)),
    Kernel(10, 0.5, False, 10.0, (0.5, 0.9, 0.97)),
    Kernel(50, 0.25, True, 30.0, (0.8, 0.95)),
)
# Outputs of training elements that are kept, two bytes each.
MOST_KEPT = 300_000_000
N_FILTERS = sum(len(kernel.decays) for kernel in KERNELS)


def kernel_counts(
    code: Int64[np.ndarray, "elements"],
    group: Int64[np.ndarray, "elements"],
    n_codes: int,
    kernel: Kernel,
) -> scipy.sparse.csr_array:
    """C[j, i]: how often i stands near j, by distance; codes below 0 count nothing.

    Elements of a group stand side by side, in order.
    """
    total = scipy.sparse.csr_array((n_codes, n_codes))
    for distance in range(1, min(kernel.reach, len(code) - 1) + 1):
        together = group[:-distance] == group[distance:]
        if not together.any():
            break
        near = together & (code[:-distance] >= 0) & (code[distance:] >= 0)
        first, second = code[:-distance][near], code[distance:][near]
        weight = np.full(len(first), distance**-kernel.power)
        total += scipy.sparse.csr_array((weight, (first, second)), shape=total.shape)
    return scipy.sparse.csr_array(total + total.T) if kernel.both_ways else total


def sequence_counts(
    groups: Groups, n_items: int
) -> tuple[list[scipy.sparse.csr_array], Float[Tensor, "items"]]:
    """The counts of each kernel, and of each item."""
    assert groups.item is not None
    code = groups.item[groups.elements()].astype(np.int64)
    group = np.repeat(np.arange(len(groups)), groups.stop - groups.start)
    counts = [kernel_counts(code, group, n_items, kernel) for kernel in KERNELS]
    return counts, torch.from_numpy(np.bincount(code[code >= 0], minlength=n_items)).float()


@dataclass(frozen=True, eq=False)
class _Histories:
    """The last known items of some rows, and the kernels to be applied to them.

    `code`: the rows' items by lag, -1 for none, as rows of the kernels `counts`, whose columns are
    the chosen items; `sizes` are the sums over all items.
    """

    code: Int64[np.ndarray, "rows recent"]
    counts: Sequence[scipy.sparse.csr_array]
    sizes: Sequence[np.ndarray]

    def filtered(
        self, kernel: int, weight: Float[np.ndarray, "rows recent"]
    ) -> tuple[scipy.sparse.csr_array, Float[np.ndarray, "rows"]]:
        """Sums over the histories of `weight`: of counts, and of what popularity is due."""
        prior = KERNELS[kernel].prior
        row, lag = np.nonzero(self.code >= 0)
        code = self.code[row, lag]
        share = weight[row, lag] / (self.sizes[kernel][code] + prior)
        shape = (len(self.code), self.counts[kernel].shape[0])
        picked = scipy.sparse.csr_array((share, (row, code)), shape=shape)
        due = np.bincount(row, weights=share * prior, minlength=len(self.code))
        return picked @ self.counts[kernel], due

    def weights(self, decay: float) -> Float[np.ndarray, "rows recent"]:
        """decay^lag for what each row has, as shares."""
        weight = np.where(self.code >= 0, decay ** np.arange(self.code.shape[1]), 0.0)
        total = weight.sum(1, keepdims=True)
        return weight / np.where(total > 0, total, 1.0)

    @property
    def is_empty(self) -> np.ndarray:
        """Rows without a known item before them."""
        return self.code.max(1, initial=-1) < 0


class _Kept:
    """Outputs of elements that were computed before, in half precision."""

    def __init__(self, n_rows: int, n_items: int) -> None:
        self.known = torch.zeros(n_rows, dtype=torch.bool)
        self.outputs = torch.empty(n_rows, n_items, dtype=torch.float16)

    def put(self, element: Int64[Tensor, "rows"], outputs: Float[Tensor, "rows items"]) -> None:
        # Half precision is finer near 0, and what is added to all items of a row does not matter.
        centered = outputs - outputs.median(1, keepdim=True).values
        self.outputs[element] = centered.cpu().half()
        self.known[element] = True


class TransitionItems(nn.Module):
    """Transition kernels, mixed: outputs of every item at every element, given the earlier ones.

    In training mode the whole of an element's group is subtracted from all counts: there it must
    be one of those that were counted. What a group's context ranges show was not counted in it.
    """

    direction = "causal"
    count: Tensor
    mixture: Tensor
    exponents: Tensor

    def __init__(
        self,
        counts: Sequence[scipy.sparse.csr_array],
        count: Float[Tensor, "items"],
    ) -> None:
        super().__init__()
        self._keep_counts(counts)
        self.register_buffer("count", count)
        self.register_buffer("mixture", torch.full((1 + N_FILTERS,), 1 / (1 + N_FILTERS)))
        self.register_buffer("exponents", torch.tensor([0.0, 1.0]))
        self._kept: _Kept | None = None

    def _keep_counts(self, counts: Sequence[scipy.sparse.csr_array]) -> None:
        for number, matrix in enumerate(counts):
            self.register_buffer(f"pointer_{number}", torch.from_numpy(matrix.indptr).long())
            self.register_buffer(f"column_{number}", torch.from_numpy(matrix.indices).long())
            self.register_buffer(f"near_{number}", torch.from_numpy(matrix.data).float())
        # What is made of these at first use.
        self._matrices: list[scipy.sparse.csr_array] = []
        self._sizes: list[np.ndarray] = []
        self._last: tuple[Tensor, list[scipy.sparse.csr_array]] | None = None

    def add(self, groups: Groups) -> None:
        """Count further groups; mixture and exponents stay as they are."""
        counts, count = sequence_counts(groups, self.n_items)
        device = self.count.device
        self._keep_counts([a + b for a, b in zip(self._counts(), counts, strict=True)])
        self.count += count.to(device)
        self.to(device)

    @property
    def n_items(self) -> int:
        """How many outputs there are."""
        return len(self.count)

    def outputs(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> Float[Tensor, "rows chosen"]:
        """Outputs of the chosen items at the elements at `where`."""
        # What a context range shows has other outputs in the group that it is an element of.
        keeps = self.training and self._kept is not None
        if keeps and not batch.steps_back[where].any():
            return self._kept_outputs(batch, where, chosen)
        return self._outputs(batch, where, chosen)

    def keep_outputs(self, n_rows: int) -> None:
        """From now on, keep the outputs of `n_rows` training elements, if they fit into memory."""
        if n_rows * self.n_items <= MOST_KEPT:
            self._kept = _Kept(n_rows, self.n_items)

    def forget_outputs(self) -> None:
        """Training has ended: what was kept is no longer needed."""
        self._kept = self._last = None

    def _kept_outputs(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> Float[Tensor, "rows chosen"]:
        kept, element = self._kept, batch.element[where].cpu()
        assert kept is not None
        new = (~kept.known[element]).nonzero()[:, 0].to(where[0].device)
        if len(new):
            every = torch.arange(self.n_items, device=chosen.device)
            rows = self._outputs(batch, (where[0][new], where[1][new]), every)
            kept.put(element[new.cpu()], rows)
        rows = kept.outputs[element]
        rows = rows if len(chosen) == self.n_items else rows[:, chosen.cpu()]
        return rows.to(device=chosen.device, dtype=self.count.dtype)

    def _outputs(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> Float[Tensor, "rows chosen"]:
        histories, popularity = self._histories(batch, where, chosen)
        mixture = self.mixture.double().cpu().numpy()
        due = np.full(len(where[0]), mixture[0])
        mix = torch.zeros_like(popularity)
        for number, weight in self._mixed_weights(histories):
            near, of_popularity = histories.filtered(number, weight)
            mix = mix + _dense(near).to(popularity)
            due += of_popularity
        due[histories.is_empty] = 1.0
        mix = mix + torch.from_numpy(due).to(popularity)[:, None] * popularity
        # Counts of one's own, subtracted, leave rounding errors.
        mix = torch.maximum(mix, 1e-6 * popularity)
        return self.exponents[0] * popularity.log() + self.exponents[1] * mix.log()

    def _mixed_weights(
        self, histories: _Histories
    ) -> Iterator[tuple[int, Float[np.ndarray, "rows recent"]]]:
        """Of each kernel that counts, the weights of the items by lag, its decays mixed."""
        filters = iter(self.mixture[1:].double().cpu().numpy())
        for number, kernel in enumerate(KERNELS):
            shares = [(next(filters), decay) for decay in kernel.decays]
            weight = sum(share * histories.weights(decay) for share, decay in shares if share)
            if np.any(weight):
                yield number, weight

    def contributions(
        self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
    ) -> tuple[Float[Tensor, "rows"], Float[Tensor, "rows length"]]:
        """The mixture's probability of one item a row without context, and what elements add.

        Without context it is the popularity, as a share of all mixed. An element adds to it where
        the item stood near its own more often than is usual, and takes from it where less often:
        the sum over kernels of their weights times (C[j, i] - n[j] pop_i) / (n[j] + kappa). In
        evaluation mode. NaN for what is no known item among the last `RECENT`.
        """
        every = torch.arange(self.n_items, device=item.device)
        histories, popularity = self._histories(batch, where, every)
        usual = popularity[0, item].double().cpu().numpy()
        row, lag = np.nonzero(histories.code >= 0)
        code, column = histories.code[row, lag], item.cpu().numpy()[row]
        more = np.zeros(len(row))
        for number, weight in self._mixed_weights(histories):
            size = histories.sizes[number][code]
            near = histories.counts[number][code, column] - size * usual[row]
            more += weight[row, lag] * near / (size + KERNELS[number].prior)
        added = np.full((len(item), batch.present.shape[1]), np.nan)
        added[row, where[1].cpu().numpy()[row] - 1 - lag] = more
        mixed = np.where(histories.is_empty, 1.0, float(self.mixture.double().sum()))
        return torch.from_numpy(mixed * usual).to(popularity), torch.from_numpy(added).to(
            popularity
        )

    def filters(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> tuple[Float[Tensor, "filters rows chosen"], Float[Tensor, "rows_or_one chosen"]]:
        """What is mixed: the popularity, then each kernel's probabilities by each decay."""
        histories, popularity = self._histories(batch, where, chosen)
        parts = [popularity.expand(len(where[0]), -1)]
        for number, kernel in enumerate(KERNELS):
            for decay in kernel.decays:
                near, due = histories.filtered(number, histories.weights(decay))
                due[histories.is_empty] = 1.0
                part = _dense(near).to(popularity)
                part = part + torch.from_numpy(due).to(popularity)[:, None] * popularity
                parts.append(part.clamp_min(0))
        return torch.stack(parts), popularity

    def _histories(
        self, batch: Batch, where: Where, chosen: Tensor
    ) -> tuple[_Histories, Float[Tensor, "rows_or_one chosen"]]:
        smooth = self.count + 0.5
        position = where[1].cpu().numpy()
        if not self.training:
            item = _known_items(batch)
            code = _recent(
                item.ravel(), where[0].cpu().numpy() * item.shape[1] + position, position
            )
            histories = _Histories(code, self._counts_of(chosen), self._sizes)
            return histories, (smooth[chosen] / smooth.sum())[None]
        own = _OwnCounts.of(batch, where[0], self.n_items)
        histories = own.histories(position, self._counts_of(chosen), self._sizes, chosen)
        held = own.held()
        total = smooth.sum() - torch.from_numpy(held.sum(1)).to(smooth)
        left = smooth[chosen] - _dense(held[:, chosen.cpu().numpy()]).to(smooth)
        return histories, (left.clamp_min(0.5) / total[:, None])[torch.from_numpy(own.row)]

    def _counts(self) -> list[scipy.sparse.csr_array]:
        if not self._matrices:
            shape = (self.n_items, self.n_items)
            for number in range(len(KERNELS)):
                names = (f"near_{number}", f"column_{number}", f"pointer_{number}")
                parts = tuple(self.get_buffer(name).cpu().numpy() for name in names)
                self._matrices.append(scipy.sparse.csr_array(parts, shape=shape))
            self._sizes = [matrix.sum(1, dtype=np.float64) for matrix in self._matrices]
        return self._matrices

    def _counts_of(self, chosen: Int64[Tensor, "chosen"]) -> list[scipy.sparse.csr_array]:
        """Columns of the counts; the last ones are kept, since tiles of rows follow each other."""
        matrices = self._counts()
        if len(chosen) == self.n_items:
            return matrices
        if self._last is None or not torch.equal(self._last[0], chosen):
            column = chosen.cpu().numpy()
            self._last = (chosen, [matrix[:, column] for matrix in matrices])
        return self._last[1]


def _known_items(batch: Batch) -> Int64[np.ndarray, "batch length"]:
    """Codes of items, -1 for unknown ones and padding."""
    assert batch.item is not None
    return torch.where(batch.present, batch.item.long(), -1).cpu().numpy()


def _recent(
    item: Int64[np.ndarray, "elements"],
    index: Int64[np.ndarray, "rows"],
    before: Int64[np.ndarray, "rows"],
) -> Int64[np.ndarray, "rows recent"]:
    """The items before each element, the last one first; `before`: how many its group has."""
    lag = np.arange(1, 1 + min(RECENT, int(before.max(initial=0))))
    code = item[np.maximum(index[:, None] - lag, 0)]
    return np.where(lag <= before[:, None], code, -1)


def _dense(matrix: scipy.sparse.csr_array) -> Float[Tensor, "rows chosen"]:
    return torch.from_numpy(matrix.toarray())


@dataclass(frozen=True, eq=False)
class _OwnCounts:
    """Some groups of a batch, whose own counts are to be subtracted from those of all.

    `seen`: codes of the pairs of a group and an item that it sees, for every element, -1 for none;
    `own`: the same of the group's own elements, without its context ranges. `item`, `of_group`: of
    each such pair. `row`: the group of each row asked for, counted among these.
    """

    row: Int64[np.ndarray, "rows"]
    seen: Int64[np.ndarray, "groups length"]
    own: Int64[np.ndarray, "groups length"]
    item: Int64[np.ndarray, "pairs"]
    of_group: Int64[np.ndarray, "pairs"]
    n_items: int

    @classmethod
    def of(cls, batch: Batch, group: Int64[Tensor, "rows"], n_items: int) -> "_OwnCounts":
        """The distinct groups of these rows."""
        distinct, row = np.unique(group.cpu().numpy(), return_inverse=True)
        item = _known_items(batch)[distinct]
        key = np.arange(len(item))[:, None] * n_items + item
        pair, code = np.unique(key[item >= 0], return_inverse=True)
        seen = np.full(item.shape, -1)
        seen[item >= 0] = code
        own = np.where(batch.steps_back.cpu().numpy()[distinct] == 0, seen, -1)
        return cls(row, seen, own, pair % n_items, pair // n_items, n_items)

    def histories(
        self,
        position: Int64[np.ndarray, "rows"],
        counts: Sequence[scipy.sparse.csr_array],
        sizes: Sequence[np.ndarray],
        chosen: Int64[Tensor, "chosen"],
    ) -> _Histories:
        """The histories of elements, with these groups' own counts subtracted."""
        n_groups, length = self.seen.shape
        code = _recent(self.seen.ravel(), self.row * length + position, position)
        group, n = np.repeat(np.arange(n_groups), length), len(self.item)
        to_items = scipy.sparse.csr_array(
            (np.ones(n), (np.arange(n), self.item)), shape=(n, self.n_items)
        )[:, chosen.cpu().numpy()]
        left, sizes_left = [], []
        for kernel, matrix, size in zip(KERNELS, counts, sizes, strict=True):
            own = kernel_counts(self.own.ravel(), group, n, kernel)
            left.append(matrix[self.item] - own @ to_items)
            sizes_left.append(np.maximum(size[self.item] - own.sum(1), 0.0))
        return _Histories(code, left, sizes_left)

    def held(self) -> scipy.sparse.csr_array:
        """How often each group has each item."""
        times = np.bincount(self.own[self.own >= 0], minlength=len(self.item))
        shape = (len(self.seen), self.n_items)
        return scipy.sparse.csr_array((times.astype(float), (self.of_group, self.item)), shape)
