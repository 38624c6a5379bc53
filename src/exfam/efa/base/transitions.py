"""Transition scores of item sequences: what followed the last items elsewhere, recent ones most.

Three kernels count how often item i stands near item j: right after it, within the next 10, and
within 50 on either side, near ones counted more. From a history, kernel k and decay g give

    p_kg(i) = sum over the last 40 items j of w_j (C_k[j, i] + kappa_k pop_i) / (n_k[j] + kappa_k),

w_j proportional to g^lag. What came right after the last m items, as a whole, is counted too, for
m from 1 to 4, where the longer context is rare backed off to the shorter one, and p_0 = pop:

    p_m(i) = (C_m[context, i] + kappa p_(m - 1)(i)) / (n_m[context] + kappa)

They are mixed with the popularity, and sharpened; items of the history, which have been there
n_i times, come again more often or less:

    eta_i = a log pop_i + c log(pi_0 pop_i + sum of pi_kg p_kg(i) + pi p_4(i))
            + r 1{n_i > 0} + s log(1 + n_i)
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from exfam.efa.base.sets import Where
from exfam.groups import Batch, Groups

Codes = Int64[np.ndarray, "elements"]
# Codes of the elements of padded groups, -1 for none.
Padded = Int64[np.ndarray, "groups length"]
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
# Items of the longest context that is counted as a whole, and counts of the shorter ones added.
LONGEST, BACK_OFF = 4, 8.0
# Outputs of training elements that are kept, two bytes each.
MOST_KEPT = 300_000_000
N_FILTERS = sum(len(kernel.decays) for kernel in KERNELS) + 1
# Which counts are those of contexts of 1, 2, ... items: what comes right after one is a kernel.
_OF_CONTEXTS = (0, *range(len(KERNELS), len(KERNELS) + LONGEST - 1))


def kernel_counts(
    code: Codes, group: Codes, n_codes: int, kernel: Kernel
) -> scipy.sparse.csr_array:
    """C[j, i]: how often i stands near j, by distance; codes below 0 count nothing.

    Elements of a group stand side by side, in order.
    """
    total = scipy.sparse.csr_array((n_codes, n_codes))
    for distance in range(1, min(kernel.reach, len(code) - 1) + 1):
        if (group[:-distance] != group[distance:]).all():
            break
        near = pair_counts(code, code, group, total.shape, distance=distance)
        total += near * distance**-kernel.power
    return scipy.sparse.csr_array(total + total.T) if kernel.both_ways else total


def pair_counts(
    first: Codes, second: Codes, group: Codes, shape: tuple[int, int], *, distance: int = 1
) -> scipy.sparse.csr_array:
    """How often a code of `second` comes so far after one of `first`, in the same group."""
    before, after = first[:-distance], second[distance:]
    near = (group[:-distance] == group[distance:]) & (before >= 0) & (after >= 0)
    ones = np.ones(int(near.sum()))
    return scipy.sparse.csr_array((ones, (before[near], after[near])), shape=shape)


def longer_keys(code: Codes, item: Codes, group: Codes, n_items: int) -> Codes:
    """Of contexts one item longer: what ends one element earlier, and this item; -1 for none."""
    key = np.full(len(item), -1)
    joined = (group[:-1] == group[1:]) & (code[:-1] >= 0) & (item[1:] >= 0)
    key[1:][joined] = code[:-1][joined] * n_items + item[1:][joined]
    return key


def _index_in(keys: Int64[np.ndarray, "keys"], wanted: Codes) -> Codes:
    """Where increasing keys have the wanted ones, -1 where they do not."""
    if not len(keys):
        return np.full(wanted.shape, -1)
    index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[index] == wanted, index, -1)


@dataclass(frozen=True, eq=False)
class _Histories:
    """The last known items of some rows, and the kernels to be applied to them.

    `code`: the rows' items by lag, -1 for none, as rows of the kernels `counts`, whose columns are
    the chosen items; `sizes` are the sums over all items. `contexts`: rows of the counts of
    contexts of 1, 2, ... items.
    """

    code: Int64[np.ndarray, "rows recent"]
    contexts: Sequence[Int64[np.ndarray, "rows"]]
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
        due = np.bincount(row, weights=share * prior, minlength=len(self.code))
        return self._picked(kernel, row, code, share), due

    def backed_off(self) -> tuple[scipy.sparse.csr_array, Float[np.ndarray, "rows"]]:
        """The same of what came after the longest contexts, each backed off to the next."""
        left, picked = np.ones(len(self.code)), []
        for number, context in zip(_OF_CONTEXTS[::-1], self.contexts[::-1], strict=True):
            row = np.flatnonzero(context >= 0)
            code = context[row]
            share = left[row] / (self.sizes[number][code] + BACK_OFF)
            picked.append(self._picked(number, row, code, share))
            left[row] = share * BACK_OFF
        return sum(picked[1:], picked[0]), left

    def _picked(
        self, number: int, row: np.ndarray, code: np.ndarray, share: np.ndarray
    ) -> scipy.sparse.csr_array:
        """Sums for rows of shares of what was counted of codes."""
        shape = (len(self.code), self.counts[number].shape[0])
        return scipy.sparse.csr_array((share, (row, code)), shape=shape) @ self.counts[number]

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
    be one of those that were counted, and in the batch as a whole. What a group's context ranges
    show was not counted in it, and stays; elements that are no targets were counted.
    """

    direction = "causal"
    count: Tensor
    mixture: Tensor
    exponents: Tensor
    repeats: Tensor

    def __init__(self, n_items: int) -> None:
        """Of no groups."""
        super().__init__()
        self.register_buffer("count", torch.zeros(n_items))
        self.register_buffer("mixture", torch.full((1 + N_FILTERS,), 1 / (1 + N_FILTERS)))
        self.register_buffer("exponents", torch.tensor([0.0, 1.0]))
        self.register_buffer("repeats", torch.zeros(2))
        self._last: tuple[Tensor, list[scipy.sparse.csr_array]] | None = None
        self._kept: _Kept | None = None
        self.allocate([0] * (len(KERNELS) + LONGEST - 1), [0] * (LONGEST - 1))

    def allocate(self, pairs: Sequence[int], contexts: Sequence[int]) -> None:
        """Room for so many counted pairs of each kind, and for contexts of 2, 3, ... items."""
        n_rows = (*[self.n_items] * len(KERNELS), *contexts)
        for length, n in enumerate(contexts, 2):
            self.register_buffer(f"context_{length}", torch.zeros(n, dtype=torch.int64))
        for number, (n, n_pairs) in enumerate(zip(n_rows, pairs, strict=True)):
            self.register_buffer(f"pointer_{number}", torch.zeros(n + 1, dtype=torch.int64))
            self.register_buffer(f"column_{number}", torch.zeros(n_pairs, dtype=torch.int64))
            self.register_buffer(f"near_{number}", torch.zeros(n_pairs))
        self._matrices: list[scipy.sparse.csr_array] = []
        self._sizes: list[np.ndarray] = []

    def shape(self) -> dict[str, list[int]]:
        """What `allocate` takes."""
        pairs = len(KERNELS) + LONGEST - 1
        return {
            "pairs": [len(self.get_buffer(f"near_{number}")) for number in range(pairs)],
            "contexts": [len(self._keys(length)) for length in range(2, LONGEST + 1)],
        }

    def add(self, groups: Groups) -> None:
        """Count these groups too; how counts are mixed stays."""
        assert groups.item is not None
        element = groups.elements()
        item = groups.item[element].astype(np.int64)
        group = np.repeat(np.arange(len(groups)), groups.stop - groups.start)
        n, old = self.n_items, list(self._counts())
        count = np.bincount(item[item >= 0], minlength=n)
        self.count += torch.from_numpy(count).to(self.count)
        for number, kernel in enumerate(KERNELS):
            self._store(number, old[number] + kernel_counts(item, group, n, kernel))
        if not self.mixture[-1]:
            return
        code, new_code = item, np.arange(n)
        for number, length in zip(_OF_CONTEXTS[1:], range(2, LONGEST + 1), strict=True):
            known, key = self._keys(length), longer_keys(code, item, group, n)
            known = new_code[known // n] * n + known % n
            keys = np.union1d(known, key[key >= 0])
            new_code, code = np.searchsorted(keys, known), _index_in(keys, key)
            pairs = old[number].tocoo()
            where = (new_code[pairs.row], pairs.col)
            moved = scipy.sparse.csr_array((pairs.data, where), shape=(len(keys), n))
            self._store(number, moved + pair_counts(code, item, group, moved.shape))
            self._set(f"context_{length}", keys)

    def drop_contexts(self) -> None:
        """Forget what came after contexts of several items."""
        for number, length in zip(_OF_CONTEXTS[1:], range(2, LONGEST + 1), strict=True):
            self._store(number, scipy.sparse.csr_array((0, self.n_items)))
            self._set(f"context_{length}", np.zeros(0, dtype=np.int64))

    def _store(self, number: int, counts: scipy.sparse.csr_array) -> None:
        self._set(f"pointer_{number}", counts.indptr.astype(np.int64))
        self._set(f"column_{number}", counts.indices.astype(np.int64))
        self._set(f"near_{number}", counts.data.astype(np.float32))
        self._matrices, self._last = [], None

    def _set(self, name: str, numbers: np.ndarray) -> None:
        self.register_buffer(name, torch.from_numpy(numbers).to(self.count.device))

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
        if mixture[-1]:
            near, of_popularity = histories.backed_off()
            mix = mix + _dense(mixture[-1] * near).to(popularity)
            due += mixture[-1] * of_popularity
        due[histories.is_empty] = 1.0
        mix = mix + torch.from_numpy(due).to(popularity)[:, None] * popularity
        # Counts of one's own, subtracted, leave rounding errors.
        mix = torch.maximum(mix, 1e-6 * popularity)
        eta = self.exponents[0] * popularity.log() + self.exponents[1] * mix.log()
        if not self.repeats.any():
            return eta
        repeated = repeat_inputs(batch, where, chosen, n_items=self.n_items)
        return eta + torch.einsum("n,nri->ri", self.repeats, repeated.to(eta))

    def _mixed_weights(
        self, histories: _Histories
    ) -> Iterator[tuple[int, Float[np.ndarray, "rows recent"]]]:
        """Of each kernel that counts, the weights of the items by lag, its decays mixed."""
        filters = iter(self.mixture[1:-1].double().cpu().numpy())
        for number, kernel in enumerate(KERNELS):
            shares = [(next(filters), decay) for decay in kernel.decays]
            weight = sum(share * histories.weights(decay) for share, decay in shares if share)
            if np.any(weight):
                yield number, weight

    def _of_contexts(
        self, histories: _Histories, column: np.ndarray, usual: np.ndarray
    ) -> Float[np.ndarray, "rows contexts"]:
        """What each item of the longest context adds to the mixture's probability of an item."""
        chance, added = usual.copy(), np.zeros((len(column), LONGEST))
        for lag, (number, context) in enumerate(zip(_OF_CONTEXTS, histories.contexts, strict=True)):
            row = np.flatnonzero(context >= 0)
            code, size = context[row], histories.sizes[number][context[row]]
            near = histories.counts[number][code, column[row]] - size * chance[row]
            added[row, lag] = near / (size + BACK_OFF)
            chance += added[:, lag]
        return float(self.mixture[-1]) * added

    def contributions(
        self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
    ) -> tuple[Float[Tensor, "rows"], Float[Tensor, "rows length"]]:
        """The mixture's probability of one item a row without context, and what elements add.

        Without context it is the popularity, as a share of all mixed. An element adds to it where
        the item stood near its own more often than is usual, and takes from it where less often:
        the sum over kernels of their weights times (C[j, i] - n[j] pop_i) / (n[j] + kappa). An
        item m before adds, too, what the context of m items changes in that of m - 1. In
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
        if self.mixture[-1]:
            near = self._of_contexts(histories, item.cpu().numpy(), usual)
            is_near = lag < LONGEST
            more[is_near] += near[row[is_near], lag[is_near]]
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
        filtered = [
            histories.filtered(number, histories.weights(decay))
            for number, kernel in enumerate(KERNELS)
            for decay in kernel.decays
        ]
        for near, due in (*filtered, histories.backed_off()):
            due[histories.is_empty] = 1.0
            part = _dense(near).to(popularity)
            part = part + torch.from_numpy(due).to(popularity)[:, None] * popularity
            parts.append(part.clamp_min(0))
        return torch.stack(parts), popularity

    def _histories(
        self, batch: Batch, where: Where, chosen: Tensor
    ) -> tuple[_Histories, Float[Tensor, "rows_or_one chosen"]]:
        smooth = self.count + 0.5
        row, position = (index.cpu().numpy() for index in where)
        counts, item = self._counts_of(chosen), _known_items(batch)
        if not self.training:
            every = np.arange(item.size).reshape(item.shape)
            codes = self._contexts(item)
            recent, *contexts = _before(codes, every[row, position], position)
            histories = _Histories(recent, contexts, counts, self._sizes)
            return histories, (smooth[chosen] / smooth.sum())[None]
        distinct, row = np.unique(row, return_inverse=True)
        is_own = batch.steps_back.cpu().numpy()[distinct] == 0
        own = _OwnCounts.of(item[distinct], is_own, self._contexts, self.n_items)
        histories = own.histories(row, position, counts, self._sizes, chosen)
        held = own.held()
        total = smooth.sum() - torch.from_numpy(held.sum(1)).to(smooth)
        left = smooth[chosen] - _dense(held[:, chosen.cpu().numpy()]).to(smooth)
        return histories, (left.clamp_min(0.5) / total[:, None])[torch.from_numpy(row)]

    def _contexts(self, item: Padded) -> list[Padded]:
        """Codes of contexts of 1, 2, ... items that end at each element, -1 for unknown ones."""
        codes, group = [item.ravel()], np.repeat(np.arange(len(item)), item.shape[1])
        for length in range(2, LONGEST + 1):
            keys = longer_keys(codes[-1], item.ravel(), group, self.n_items)
            codes.append(_index_in(self._keys(length), keys))
        return [code.reshape(item.shape) for code in codes]

    def _keys(self, length: int) -> Int64[np.ndarray, "keys"]:
        """Contexts of so many items: what it ends with, after the code of what precedes it."""
        return self.get_buffer(f"context_{length}").cpu().numpy()

    def _counts(self) -> list[scipy.sparse.csr_array]:
        if not self._matrices:
            for number in range(len(KERNELS) + LONGEST - 1):
                names = (f"near_{number}", f"column_{number}", f"pointer_{number}")
                parts = tuple(self.get_buffer(name).cpu().numpy() for name in names)
                shape = (len(parts[2]) - 1, self.n_items)
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


def _before(
    codes: Sequence[Padded], index: Int64[np.ndarray, "rows"], position: Int64[np.ndarray, "rows"]
) -> list[np.ndarray]:
    """The last items before each element, the last one first, and the contexts that end there.

    `codes`: those of contexts of 1, 2, ... items; `position`: how many elements come before.
    """
    lag = np.arange(1, 1 + min(RECENT, int(position.max(initial=0))))
    recent = codes[0].ravel()[np.maximum(index[:, None] - lag, 0)]
    last = [code.ravel()[np.maximum(index - 1, 0)] for code in codes]
    is_first = position == 0
    return [
        np.where(lag <= position[:, None], recent, -1),
        *(np.where(is_first, -1, code) for code in last),
    ]


def repeat_inputs(
    batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"], *, n_items: int
) -> Float[Tensor, "two rows chosen"]:
    """Whether each chosen item is in the history of elements, and log(1 + how often)."""
    column = np.full(n_items + 1, -1)
    column[chosen.cpu().numpy()] = np.arange(len(chosen))
    group, position = (index.cpu().numpy() for index in where)
    row = np.repeat(np.arange(len(group)), position)
    earlier = np.arange(len(row)) - np.repeat(np.cumsum(position) - position, position)
    code = column[_known_items(batch)[group[row], earlier]]
    key = (row * len(chosen) + code)[code >= 0]
    times = np.bincount(key, minlength=len(group) * len(chosen))
    count = torch.from_numpy(times.reshape(len(group), len(chosen))).to(chosen.device).float()
    return torch.stack([(count > 0).float(), count.log1p()])


def _dense(matrix: scipy.sparse.csr_array) -> Float[Tensor, "rows chosen"]:
    return torch.from_numpy(matrix.toarray())


class _Pairs(NamedTuple):
    """The distinct pairs of a group and a code: both, and which pair each element is, -1 for none.

    `own`: the same for elements whose pair was counted in the group.
    """

    code: Codes
    group: Codes
    seen: Padded
    own: Padded

    @classmethod
    def of(cls, code: Padded, own: Padded) -> "_Pairs":
        n_codes = int(code.max(initial=0)) + 1
        key = np.arange(len(code))[:, None] * n_codes + code
        pair, index = np.unique(key[code >= 0], return_inverse=True)
        seen = np.full(code.shape, -1)
        seen[code >= 0] = index
        return cls(pair % n_codes, pair // n_codes, seen, np.where(own >= 0, seen, -1))


@dataclass(frozen=True, eq=False)
class _OwnCounts:
    """Some groups, whose own counts are to be subtracted: pairs of contexts of 1, 2, ... items.

    A context that a group sees may begin in its context ranges: then it was not counted there.
    """

    pairs: Sequence[_Pairs]
    n_items: int

    @classmethod
    def of(
        cls,
        item: Padded,
        is_own: Bool[np.ndarray, "groups length"],
        contexts: Callable[[Padded], list[Padded]],
        n_items: int,
    ) -> "_OwnCounts":
        own = contexts(np.where(is_own, item, -1))
        pairs = [_Pairs.of(*codes) for codes in zip(contexts(item), own, strict=True)]
        return cls(pairs, n_items)

    def histories(
        self,
        row: Int64[np.ndarray, "rows"],
        position: Int64[np.ndarray, "rows"],
        counts: Sequence[scipy.sparse.csr_array],
        sizes: Sequence[np.ndarray],
        chosen: Int64[Tensor, "chosen"],
    ) -> _Histories:
        """The histories of elements of the groups `row`, with their own counts subtracted."""
        items, (n_groups, length) = self.pairs[0], self.pairs[0].seen.shape
        index, n = row * length + position, len(items.code)
        recent, *contexts = _before([pairs.seen for pairs in self.pairs], index, position)
        group, item = np.repeat(np.arange(n_groups), length), items.own.ravel()
        to_items = scipy.sparse.csr_array(
            (np.ones(n), (np.arange(n), items.code)), shape=(n, self.n_items)
        )[:, chosen.cpu().numpy()]
        of_kernels = [(items, kernel_counts(item, group, n, kernel)) for kernel in KERNELS]
        of_contexts = [
            (pairs, pair_counts(pairs.own.ravel(), item, group, (len(pairs.code), n)))
            for pairs in self.pairs[1:]
        ]
        left, sizes_left = [], []
        own_counts = of_kernels + of_contexts
        for (pairs, own), matrix, size in zip(own_counts, counts, sizes, strict=True):
            left.append(matrix[pairs.code] - own @ to_items)
            sizes_left.append(np.maximum(size[pairs.code] - own.sum(1), 0.0))
        return _Histories(recent, contexts, left, sizes_left)

    def held(self) -> scipy.sparse.csr_array:
        """How often each group has each item."""
        items = self.pairs[0]
        times = np.bincount(items.own[items.own >= 0], minlength=len(items.code))
        shape = (len(items.seen), self.n_items)
        pairs = (times.astype(float), (items.group, items.code))
        return scipy.sparse.csr_array(pairs, shape=shape)
