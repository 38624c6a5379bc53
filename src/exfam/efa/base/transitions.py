"""Transition scores of item sequences: what followed the last items elsewhere, recent ones most.

Three kernels count how often item i stands near item j: right after it, within the next 10, and
within 50 on either side, near ones counted more. From a history, kernel k and decay g give

    p_kg(i) = sum over the last 40 items j of w_j (C_k[j, i] + kappa_k pop_i) / (n_k[j] + kappa_k),

w_j proportional to g^lag. What came right after the last m items, as a whole, is counted too, for
m from 1 to 4, where the longer context is rare backed off to the shorter one by many counts or
by few, and p_0 = pop:

    p_mb(i) = (C_m[context, i] + b p_(m - 1)b(i)) / (n_m[context] + b)

They are mixed with the popularity, and sharpened; items of the history, which have been there
n_i times, come again more often or less:

    eta_i = a log pop_i + c log(pi_0 pop_i + sum of pi_kg p_kg(i) + sum of pi_mb p_mb(i))
            + r 1{n_i > 0} + s log(1 + n_i)
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from exfam.efa.base.histories import (
    BACK_OFFS,
    KERNELS,
    LONGEST,
    N_FILTERS,
    N_OF_CONTEXTS,
    OF_CONTEXTS,
    Histories,
    OwnCounts,
    Padded,
    before,
    index_in,
    kernel_counts,
    known_items,
    longer_keys,
    pair_counts,
    repeat_inputs,
)
from exfam.efa.base.sets import Where
from exfam.groups import Batch, Groups
from exfam.groups.arrange import group_of_elements

# The least probability of an item: counts of one's own, subtracted, leave rounding errors.
LEAST_OF_POPULARITY = 1e-6


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

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *given: Any) -> None:
        # Of contexts, older versions mixed the longest alone, backed off by the first number.
        old = state.get(f"{prefix}mixture")
        if old is not None and len(old) == len(self.mixture) - N_OF_CONTEXTS + 1:
            mixture = torch.zeros_like(self.mixture)
            mixture[: len(old) - 1], mixture[-len(BACK_OFFS)] = old[:-1], old[-1]
            state = state | {f"{prefix}mixture": mixture}
        super()._load_from_state_dict(state, prefix, *given)

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
        group = group_of_elements(groups)
        n, old = self.n_items, list(self._counts())
        count = np.bincount(item[item >= 0], minlength=n)
        self.count += torch.from_numpy(count).to(self.count)
        for number, kernel in enumerate(KERNELS):
            self._store(number, old[number] + kernel_counts(item, group, n, kernel))
        if not self._of_lengths()[1:].any():
            return
        code, new_code = item, np.arange(n)
        for number, length in zip(OF_CONTEXTS[1:], range(2, LONGEST + 1), strict=True):
            known, key = self._keys(length), longer_keys(code, item, group, n)
            known = new_code[known // n] * n + known % n
            keys = np.union1d(known, key[key >= 0])
            new_code, code = np.searchsorted(keys, known), index_in(keys, key)
            pairs = old[number].tocoo()
            where = (new_code[pairs.row], pairs.col)
            moved = scipy.sparse.csr_array((pairs.data, where), shape=(len(keys), n))
            self._store(number, moved + pair_counts(code, item, group, moved.shape))
            self._set(f"context_{length}", keys)

    def drop_contexts(self) -> None:
        """Forget what came after contexts of several items."""
        for number, length in zip(OF_CONTEXTS[1:], range(2, LONGEST + 1), strict=True):
            self._store(number, scipy.sparse.csr_array((0, self.n_items)))
            self._set(f"context_{length}", np.zeros(0, dtype=np.int64))

    def _store(self, number: int, counts: scipy.sparse.csr_array) -> None:
        self._set(f"pointer_{number}", counts.indptr.astype(np.int64))
        self._set(f"column_{number}", counts.indices.astype(np.int64))
        self._set(f"near_{number}", counts.data.astype(np.float32))
        self._matrices, self._last = [], None

    def _set(self, name: str, numbers: np.ndarray) -> None:
        self.register_buffer(name, torch.from_numpy(numbers).to(self.count.device))

    def _of_lengths(self) -> Float[np.ndarray, "lengths back_offs"]:
        """Shares of what came after contexts of 1, 2, ... items."""
        shares: np.ndarray = self.mixture[-N_OF_CONTEXTS:].double().cpu().numpy()
        return shares.reshape(LONGEST, -1)

    @property
    def n_items(self) -> int:
        """How many outputs there are."""
        return len(self.count)

    def outputs(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> Float[Tensor, "rows chosen"]:
        """Outputs of the chosen items at the elements at `where`."""
        histories, popularity = self._histories(batch, where, chosen)
        mixture = self.mixture.double().cpu().numpy()
        due = np.full(len(where[0]), mixture[0])
        mix = torch.zeros_like(popularity)
        for number, weight in self._mixed_weights(histories):
            near, of_popularity = histories.filtered(number, weight)
            mix = mix + _dense(near).to(popularity)
            due += of_popularity
        if mixture[-N_OF_CONTEXTS:].any():
            near, of_popularity = histories.backed_off(self._of_lengths())
            mix = mix + _dense(near).to(popularity)
            due += of_popularity
        due[histories.is_empty] = 1.0
        mix = mix + torch.from_numpy(due).to(popularity)[:, None] * popularity
        mix = torch.maximum(mix, LEAST_OF_POPULARITY * popularity)
        eta = self.exponents[0] * popularity.log() + self.exponents[1] * mix.log()
        if not self.repeats.any():
            return eta
        repeated = repeat_inputs(batch, where, chosen, n_items=self.n_items)
        return eta + torch.einsum("n,nri->ri", self.repeats, repeated.to(eta))

    def _mixed_weights(
        self, histories: Histories
    ) -> Iterator[tuple[int, Float[np.ndarray, "rows recent"]]]:
        """Of each kernel that counts, the weights of the items by lag, its decays mixed."""
        filters = iter(self.mixture[1:-N_OF_CONTEXTS].double().cpu().numpy())
        for number, kernel in enumerate(KERNELS):
            shares = [(next(filters), decay) for decay in kernel.decays]
            weight = sum(share * histories.weights(decay) for share, decay in shares if share)
            if np.any(weight):
                yield number, weight

    def _of_contexts(
        self, histories: Histories, column: np.ndarray, usual: np.ndarray
    ) -> Float[np.ndarray, "rows contexts"]:
        """What each item of the longest context adds to the mixture's probability of an item."""
        # What a context changes counts in the probabilities of all longer ones, too.
        longer = self._of_lengths()[::-1].cumsum(0)[::-1]
        chance = np.repeat(usual[:, None], len(BACK_OFFS), axis=1)
        added = np.zeros((len(column), LONGEST))
        for lag, (number, context) in enumerate(zip(OF_CONTEXTS, histories.contexts, strict=True)):
            row = np.flatnonzero(context >= 0)
            if not len(row):
                continue
            code, size = context[row], histories.sizes[number][context[row]][:, None]
            near = histories.counts[number][code, column[row]][:, None] - size * chance[row]
            change = near / (size + BACK_OFFS)
            chance[row] += change
            added[row, lag] = change @ longer[lag]
        return added

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
        if self.mixture[-N_OF_CONTEXTS:].any():
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
        """What is mixed: the popularity, then kernels' probabilities by decay, then contexts'."""
        histories, popularity = self._histories(batch, where, chosen)
        parts = [popularity.expand(len(where[0]), -1)]
        filtered = [
            histories.filtered(number, histories.weights(decay))
            for number, kernel in enumerate(KERNELS)
            for decay in kernel.decays
        ]
        each = np.eye(N_OF_CONTEXTS).reshape(N_OF_CONTEXTS, LONGEST, -1)
        contexts = [histories.backed_off(shares) for shares in each]
        for near, due in (*filtered, *contexts):
            due[histories.is_empty] = 1.0
            part = _dense(near).to(popularity)
            part = part + torch.from_numpy(due).to(popularity)[:, None] * popularity
            parts.append(part.clamp_min(0))
        return torch.stack(parts), popularity

    def _histories(
        self, batch: Batch, where: Where, chosen: Tensor
    ) -> tuple[Histories, Float[Tensor, "rows_or_one chosen"]]:
        smooth = self.count + 0.5
        row, position = (index.cpu().numpy() for index in where)
        counts, item = self._counts_of(chosen), known_items(batch)
        if not self.training:
            every = np.arange(item.size).reshape(item.shape)
            codes = self._contexts(item)
            recent, *contexts = before(codes, every[row, position], position)
            histories = Histories(recent, contexts, counts, self._sizes)
            return histories, (smooth[chosen] / smooth.sum())[None]
        distinct, row = np.unique(row, return_inverse=True)
        is_own = batch.steps_back.cpu().numpy()[distinct] == 0
        own = OwnCounts.of(item[distinct], is_own, self._contexts, self.n_items)
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
            codes.append(index_in(self._keys(length), keys))
        return [code.reshape(item.shape) for code in codes]

    def _keys(self, length: int) -> Int64[np.ndarray, "keys"]:
        """Contexts of so many items: what it ends with, after the code of what precedes it."""
        return self.get_buffer(f"context_{length}").cpu().numpy()

    def _counts(self) -> list[scipy.sparse.csr_array]:
        if not self._matrices:
            matrices = []
            for number in range(len(KERNELS) + LONGEST - 1):
                names = (f"near_{number}", f"column_{number}", f"pointer_{number}")
                parts = tuple(self.get_buffer(name).cpu().numpy() for name in names)
                shape = (len(parts[2]) - 1, self.n_items)
                matrices.append(scipy.sparse.csr_array(parts, shape=shape))
            self._sizes = [matrix.sum(1, dtype=np.float64) for matrix in matrices]
            # Last, and at once: another thread takes them as soon as they are there.
            self._matrices = matrices
        return self._matrices

    def _counts_of(self, chosen: Int64[Tensor, "chosen"]) -> list[scipy.sparse.csr_array]:
        """Columns of the counts; the last ones are kept, since tiles of rows follow each other."""
        matrices = self._counts()
        if len(chosen) == self.n_items:
            self._last = None
            return matrices
        last = self._last
        if last is None or not torch.equal(last[0], chosen):
            column = chosen.cpu().numpy()
            last = self._last = (chosen, [matrix[:, column] for matrix in matrices])
        return last[1]


def _dense(matrix: scipy.sparse.csr_array) -> Float[Tensor, "rows chosen"]:
    return torch.from_numpy(matrix.toarray())
