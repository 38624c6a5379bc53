"""Which (word, distance) pairs matter in a corpus: their weights, and the nats without them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from exfam.checks import ExfamError, check_choice
from exfam.groups import Groups
from exfam.tables.experts.table_attention import cell_importance
from exfam_studies.experts.context_words import ContextWords

# Sentences whose experts are held at once.
_AT_ONCE = 128


@dataclass(frozen=True, eq=False)
class PairSummary:
    """Of each word at each distance from the center, over the centers that it stands around.

    `count`: around how many it stands; 0 for what never stands, and so are the others
    `weight`: mean of the center word's own alpha
    `nats`: mean of what the distribution loses without it, by its own judgment: KL(p || p without)
    """

    distances: tuple[int, ...]
    count: Int64[np.ndarray, "distances words"]
    weight: Float64[np.ndarray, "distances words"]
    nats: Float64[np.ndarray, "distances words"]

    def strongest(
        self, k: int, *, names: Sequence[str], by: str = "nats", least: int = 1
    ) -> list[dict[str, int | str | float]]:
        """The first k pairs by "weight" or "nats", most first.

        `least`: how often a pair must stand
        """
        check_choice("by", by, ("weight", "nats"))
        figures = np.where(self.count >= least, getattr(self, by), -np.inf)
        order = np.argsort(-figures.ravel(), kind="stable")[:k]
        return [
            {
                "word": names[word],
                "distance": self.distances[number],
                "count": int(self.count[number, word]),
                "weight": float(self.weight[number, word]),
                "nats": float(self.nats[number, word]),
            }
            for number, word in zip(*np.unravel_index(order, figures.shape), strict=True)
            if np.isfinite(figures[number, word])
        ]


def summarize_context_pairs(network: ContextWords, groups: Groups) -> PairSummary:
    """What each word at each distance does in a corpus, in a model of words.

    Raises ExfamError without sentences of two words, or for a network that takes whole sentences as
    context, which has no distances of its own.
    """
    if network.window is None:
        raise ExfamError("`network` must have a window to have distances, got None for it.")
    distances = [d for d in range(-network.window, network.window + 1) if d]
    count = np.zeros((len(distances), network.n_items), dtype=np.int64)
    sums = {name: np.zeros(count.shape) for name in ("weight", "nats")}
    for first in range(0, len(groups), _AT_ONCE):
        some = groups[first : first + _AT_ONCE]
        batch = some.pad(np.arange(len(some)))
        experts = network.experts(batch)
        assert batch.item is not None
        scored = (batch.target & (batch.item >= 0)).nonzero(as_tuple=True)
        own = batch.item[scored][:, None, None].expand(-1, len(experts.window.offset), 1)
        figures = {
            "weight": experts.weights[scored].gather(-1, own)[..., 0],
            "nats": cell_importance(experts.eta[scored], experts.removal_effects()[scored]),
        }
        there, word = experts.window.there[scored], experts.window.item[scored]
        number = np.searchsorted(distances, experts.window.offset.numpy())
        index = np.broadcast_to(number, there.shape)[there.numpy()], word[there].numpy()
        np.add.at(count, index, 1)
        for name, figure in figures.items():
            np.add.at(sums[name], index, figure[there].double().numpy())
    if not count.any():
        raise ExfamError("`groups` must hold at least one word with a context, got none.")
    means = {name: total / np.maximum(count, 1) for name, total in sums.items()}
    return PairSummary(tuple(distances), count, **means)
