"""Groups drawn from exponential family attention itself: context and center embeddings are known.

The next item of a group comes with

    p(x_i | x_<i) = softmax over x of H_i . delta_x + b_x
    H_i = (v_start + sum over j < i of w_ij v_(x_j)) / (1 + sum over j < i of w_ij)
    w_ij = exp(key . v_(x_j) - fade (i - 1 - j))

one causal layer of one head: the hidden element has one query, earlier elements answer by their
item and their distance, and a start token (a null key) always does. Items may occur again.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Int64

from exfam.checks import DataError
from exfam.groups import Groups

# Standard deviation of values, 1 for centers; how fast earlier elements lose weight, per step.
_SPREAD, _FADE = 1.5, 0.5


@dataclass(frozen=True, eq=False)
class AttentionProcess:
    """The truth behind groups of items: embeddings and the exact conditionals p(item | earlier).

    `value`: v of each item; `start`: of the start token; `key`: what weights depend on;
    `center`, `bias`: delta and b; `fade`: how fast earlier elements lose weight, per step
    """

    value: Float[np.ndarray, "items dim"]
    start: Float[np.ndarray, "dim"]
    key: Float[np.ndarray, "dim"]
    center: Float[np.ndarray, "items dim"]
    bias: Float[np.ndarray, "items"]
    fade: float

    def draw(self, n_groups: int, *, length: int, seed: int) -> Groups:
        """Groups of `length` items each, drawn item after item."""
        random = np.random.default_rng(seed)
        item = np.empty((n_groups, length), dtype=np.int64)
        for step in range(length):
            likely = np.exp(self._log_probs(self._context(item[:, :step])))
            upto = likely.cumsum(axis=1)
            drawn = (random.random((n_groups, 1)) * upto[:, -1:] >= upto).sum(axis=1)
            item[:, step] = np.minimum(drawn, len(self.center) - 1)
        start = length * np.arange(n_groups)
        return Groups(
            start=start,
            stop=start + length,
            item=item.ravel().astype(np.int32),
            vocabulary={"item": np.arange(len(self.center))},
            group_names=np.arange(n_groups),
            ordered=True,
        )

    def contexts(self, groups: Groups) -> Float[np.ndarray, "own dim"]:
        """H_i of every own element of `groups`, from the earlier elements of its group.

        Raises DataError for groups without items of this catalog.
        """
        item, length = self._items(groups), groups.lengths
        first = np.cumsum(length) - length
        out = np.empty((len(item), len(self.start)))
        for step in range(int(length.max(initial=0))):
            some = first[length > step]
            out[some + step] = self._context(item[some[:, None] + np.arange(step)])
        return out

    def log_prob(self, groups: Groups) -> Float[np.ndarray, "own"]:
        """Exact log-probability in nats of every own element given the earlier ones of its group.

        No model has a higher expected mean. Raises DataError as `contexts`.
        """
        nats = self._log_probs(self.contexts(groups))
        return np.take_along_axis(nats, self._items(groups)[:, None], axis=1)[:, 0]

    def _items(self, groups: Groups) -> Int64[np.ndarray, "own"]:
        last = len(self.center) - 1
        item = None if groups.item is None else groups.item[groups.elements()].astype(np.int64)
        if item is None or ((item < 0) | (item > last)).any():
            raise DataError(f"`groups` must hold items 0 .. {last} alone, got others.")
        return item

    def _context(
        self, earlier: Int[np.ndarray, "targets earlier"]
    ) -> Float[np.ndarray, "targets dim"]:
        """H after these items, the last of them the most recent."""
        steps = np.arange(earlier.shape[1])[::-1]
        weight = np.exp((self.value @ self.key)[earlier] - self.fade * steps)
        total = self.start + np.einsum("te,ted->td", weight, self.value[earlier])
        return total / (1 + weight.sum(axis=1, keepdims=True))

    def _log_probs(
        self, context: Float[np.ndarray, "targets dim"]
    ) -> Float[np.ndarray, "targets items"]:
        eta = context @ self.center.T + self.bias
        eta -= eta.max(axis=1, keepdims=True)
        return eta - np.log(np.exp(eta).sum(axis=1, keepdims=True))


def draw_attention_process(n_items: int, *, dim: int, seed: int) -> AttentionProcess:
    """Embeddings of `n_items` of length `dim`, normal, drawn with `seed`."""
    random = np.random.default_rng(seed)
    return AttentionProcess(
        value=_SPREAD * random.normal(size=(n_items, dim)),
        start=random.normal(size=dim),
        key=random.normal(size=dim) / (_SPREAD * np.sqrt(dim)),
        center=random.normal(size=(n_items, dim)),
        bias=0.5 * random.normal(size=n_items),
        fade=_FADE,
    )
