"""Which (word, position) pairs matter in a corpus: their weights, and the nats without them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from exfam.checks import ExfamError, check_choice, check_whole
from exfam.experts import LinearAttention, Sentences, as_experts
from exfam.groups import Batch, Groups
from exfam.tables.experts.importance import cell_importance, removal_effects
from exfam_studies.experts.attended_words import WordAttention
from exfam_studies.experts.context_words import ContextWords
from exfam_studies.experts.pairs import unit_codes

# Sentences whose experts are held at once.
_AT_ONCE = 128


@dataclass(frozen=True, eq=False)
class PairSummary:
    """Of each unit at each place, for each target, over the sentences where it stands.

    `places`: positions, or distances from the center
    `targets`: positions that are predicted, or "all"
    `count`: in how many sentences it stands
    `weight`: mean of pi over those and over heads; `share`: of all weight in the corpus
    `size`: mean length, over outputs, of what it adds to the logits
    `nats`: mean of what the law loses without it, by its own judgment: KL(p || p without it)

    All but `count` are 0 for what never stands.
    """

    targets: tuple[int | str, ...]
    places: tuple[int, ...]
    count: Int64[np.ndarray, "targets places units"]
    weight: Float64[np.ndarray, "targets places units"]
    share: Float64[np.ndarray, "targets places units"]
    size: Float64[np.ndarray, "targets places units"]
    nats: Float64[np.ndarray, "targets places units"]

    def strongest(
        self, k: int, *, by: str = "nats", names: Sequence[str] | None = None, least: int = 1
    ) -> list[dict[str, int | str | float]]:
        """The first k pairs by "weight", "share", "size" or "nats", most first.

        `names`: of the units, "MASK" being the one after the last; numbers if None (default None)
        `least`: how often a pair must stand (default 1)

        Raises ExfamError for another `by`, or numbers that are not whole.
        """
        check_choice("by", by, ("weight", "share", "size", "nats"))
        check_whole("k", k)
        check_whole("least", least)
        figures = np.where(self.count >= least, getattr(self, by), -np.inf)
        order = np.argsort(-figures.ravel(), kind="stable")[:k]
        chosen = [index for index in order.tolist() if np.isfinite(figures.flat[index])]
        return [self._pair(index, names) for index in chosen]

    def _pair(self, flat: int, names: Sequence[str] | None) -> dict[str, int | str | float]:
        target, place, unit = (int(each) for each in np.unravel_index(flat, self.count.shape))
        named = [*names, "MASK"] if names else list(range(self.count.shape[2]))
        figures = ("weight", "share", "size", "nats")
        return {
            "target": self.targets[target],
            "place": self.places[place],
            "unit": named[unit],
            "count": int(self.count[target, place, unit]),
            **{name: float(getattr(self, name)[target, place, unit]) for name in figures},
        }


def summarize_pairs(
    attention: LinearAttention, sentences: Sentences, targets: Sequence[int]
) -> PairSummary:
    """What each (word, position) pair does in a corpus, in a network of one linear layer.

    Units are the network's tokens and, last, MASK; outputs are taken as the logits of labels. Of a
    table, `TableAttention.attention`, `.sentences(cells)` and `.indices(names)` are what is asked
    for. Raises ExfamError without sentences, for those of another network, or with cells between
    two tokens, which are no units.
    """
    m = list(targets)
    tally = _Tally((len(m), attention.n_positions, len(attention.tokens) + 1))
    for first in range(0, len(sentences.code), _AT_ONCE):
        some = _part(sentences, slice(first, first + _AT_ONCE))
        code, _ = unit_codes(attention, some, m)
        experts = as_experts(attention, some, m)
        effects = removal_effects(experts, m)
        nats = [cell_importance(experts.logits[:, t], effects[:, t]) for t in range(len(m))]
        tally.add(
            code,
            weight=experts.weights.mean(2),
            size=experts.parts.norm(dim=-1),
            nats=torch.stack(nats, 1),
        )
    return tally.summary(tuple(m), tuple(range(attention.n_positions)))


def summarize_context_pairs(network: ContextWords, groups: Groups) -> PairSummary:
    """What each word at each distance does in a corpus, in a model of words.

    `weight` is that of the word that stands at the center, where weights depend on it. Raises
    ExfamError without sentences, or for a network that takes whole sentences as context, which has
    no distances of its own.
    """
    if network.window is None:
        raise ExfamError("`network` must have a window to have distances, got None for it.")
    window = network.window
    places = tuple(offset for offset in range(-window, window + 1) if offset)
    tally = _Tally((1, len(places), network.n_items))
    for first in range(0, len(groups), _AT_ONCE):
        some = groups[first : first + _AT_ONCE]
        code, figures = _of_context(network, some.pad(np.arange(len(some))), places)
        tally.add(code, **figures)
    return tally.summary(("all",), places)


def _of_context(
    network: ContextWords, batch: Batch, places: Sequence[int]
) -> tuple[Int64[Tensor, "rows 1 places"], dict[str, Float[Tensor, "rows 1 places"]]]:
    """The words around each known word, -1 where there is none, and their figures."""
    experts = WordAttention(network).experts(batch)
    assert batch.item is not None
    scored = (batch.target & (batch.item >= 0)).nonzero(as_tuple=True)
    own = batch.item[scored][:, None, None].expand(-1, len(experts.window.offset), 1)
    figures = {
        "weight": experts.weights[scored].gather(-1, own)[..., 0],
        "size": experts.parts[scored].norm(dim=-1),
        "nats": cell_importance(experts.eta[scored], experts.removal_effects()[scored]),
    }
    # Short sentences have fewer distances.
    number = [places.index(offset) for offset in experts.window.offset.tolist()]
    code = experts.window.item.masked_fill(~experts.window.there, -1)[scored]
    all_places = code.new_full((len(code), len(places)), -1)
    all_places[:, number] = code
    spread = {name: torch.zeros(len(code), 1, len(places)) for name in figures}
    for name, figure in figures.items():
        spread[name][:, 0, number] = figure.float()
    return all_places[:, None], spread


class _Tally:
    """Sums over sentences, by target, place and unit."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.shape = shape
        self.count = np.zeros(shape, dtype=np.int64)
        self.sums = {name: np.zeros(shape) for name in ("weight", "size", "nats")}

    def add(
        self,
        code: Int64[Tensor, "rows targets places"],
        **figures: Float[Tensor, "rows targets places"],
    ) -> None:
        _, target, place = (code >= 0).nonzero(as_tuple=True)
        index = target.numpy(), place.numpy(), code[code >= 0].numpy()
        np.add.at(self.count, index, 1)
        for name, figure in figures.items():
            np.add.at(self.sums[name], index, figure[code >= 0].double().numpy())

    def summary(self, targets: tuple[int | str, ...], places: tuple[int, ...]) -> PairSummary:
        if not self.count.any():
            raise ExfamError("`sentences` must hold at least one word with a context, got none.")
        often = np.maximum(self.count, 1)
        means = {name: total / often for name, total in self.sums.items()}
        weight = self.sums["weight"]
        # Of each target's weight: they add up to 1 for each of them.
        share = weight / weight.sum(axis=(1, 2), keepdims=True)
        return PairSummary(targets, places, self.count, share=share, **means)


def _part(sentences: Sentences, cut: slice) -> Sentences:
    fraction, masked = sentences.fraction, sentences.masked
    return Sentences(
        sentences.code[cut],
        None if fraction is None else fraction[cut],
        sentences.first,
        None if masked is None else masked[cut],
    )
