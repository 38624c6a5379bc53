"""Drawing baskets from their process, and writing them to a file."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from jaxtyping import Int, Int32, Int64

from exfam.checks import DataError, check_positive
from exfam.groups import Groups
from exfam.simulators.baskets import BasketProcess, BasketSettings, draw_process

_GROUPS_AT_ONCE = 50_000
_NONE = -1
Pending = Int64[np.ndarray, "pending"]


@dataclass(frozen=True, eq=False)
class SimulatedBaskets:
    """Simulated baskets, in the order in which their items came, and the truth behind them."""

    groups: Groups
    truth: BasketProcess


def simulate_baskets(
    n_groups: int, n_items: int, *, settings: BasketSettings | None = None, seed: int
) -> SimulatedBaskets:
    """Baskets of a shopper who turns from theme to theme, with their exact conditionals.

    `exfam.simulators.baskets` has the formula; `truth.log_prob` computes it. Two million elements
    of 50,000 items take some seconds.

    >>> baskets = simulate_baskets(1_000, 5_000, seed=0)
    >>> len(baskets.groups), baskets.groups.n_items, baskets.groups.repeats_items()
    (1000, 5000, False)
    """
    check_positive("n_groups", n_groups)
    process = draw_process(n_items, settings=settings, seed=seed)
    # The catalog took draws of [seed]; baskets go on with others.
    random = np.random.default_rng([seed, 1])
    settings = process.settings
    spread = settings.length_spread * random.standard_normal(n_groups)
    lengths = np.rint(settings.median_length * np.exp(spread))
    lengths = np.clip(lengths, 1, settings.max_length).astype(np.int64)
    stop = np.cumsum(lengths)
    item = np.empty(int(stop[-1]), dtype=np.int32)
    for first in range(0, n_groups, _GROUPS_AT_ONCE):
        some = lengths[first : first + _GROUPS_AT_ONCE]
        begin = int(stop[first] - lengths[first])
        item[begin : begin + int(some.sum())] = _Drawing(process, some, random).items()
    groups = Groups(
        start=stop - lengths,
        stop=stop,
        item=item,
        vocabulary={"item": _names(process)},
        group_names=np.arange(n_groups),
        ordered=True,
    )
    return SimulatedBaskets(groups, process)


def write_baskets(groups: Groups, path: str | Path) -> None:
    """A Parquet file with one row an item: `order`, `line` (from 1) and `product`.

    Raises DataError for groups whose items have no names.
    """
    if groups.item is None or "item" not in groups.vocabulary:
        raise DataError("`groups` must have items by name, got none. Give them a vocabulary.")
    lengths = groups.stop - groups.start
    first = np.cumsum(lengths) - lengths
    names = np.arange(len(groups)) if groups.group_names is None else groups.group_names
    labels = pa.array(groups.vocabulary["item"].tolist())
    codes = pa.array(groups.item[groups.elements()])
    line = np.arange(int(lengths.sum())) - np.repeat(first, lengths) + 1
    table = pa.table(
        {
            "order": np.repeat(names, lengths),
            "line": line.astype(np.int32),
            "product": pa.DictionaryArray.from_arrays(codes, labels),
        }
    )
    pyarrow.parquet.write_table(table, path)


def _names(process: BasketProcess) -> np.ndarray:
    rank = np.arange(process.n_items) - np.searchsorted(process.theme, process.theme)
    return np.array(
        [
            f"staple {n + 1}" if theme == process.staples else f"theme {theme + 1} item {n + 1}"
            for theme, n in zip(process.theme.tolist(), rank.tolist(), strict=True)
        ],
        dtype=object,
    )


class _Drawing:
    """Baskets in the making, the longest first: those still growing are always the first ones."""

    def __init__(
        self,
        process: BasketProcess,
        lengths: Int64[np.ndarray, "groups"],
        random: np.random.Generator,
    ) -> None:
        self.process, self.random = process, random
        self.order = np.argsort(-lengths, kind="stable")
        self.lengths = lengths[self.order]
        shape = (len(lengths), int(self.lengths[0]))
        self.item = np.full(shape, _NONE, dtype=np.int32)
        self.family = np.full(shape, _NONE, dtype=np.int32)
        # Themes of the themed items so far, one after another.
        self.themes = np.full(shape, _NONE, dtype=np.int32)
        self.n_themed = np.zeros(len(lengths), dtype=np.int64)
        self.upto_theme = np.cumsum(process.popularity)
        self.upto_item = np.cumsum(process.share)
        self.last_of_theme = (
            np.searchsorted(process.theme, np.arange(process.staples + 1), "right") - 1
        )

    def items(self) -> Int32[np.ndarray, "elements"]:
        """All items of all baskets, in the order in which the lengths were given."""
        for position in range(self.item.shape[1]):
            self._add(position)
        original = np.argsort(self.order)
        return self.item[original][np.arange(self.item.shape[1]) < self.lengths[original, None]]

    def _add(self, position: int) -> None:
        """The next item of all baskets that are longer than `position`."""
        pending = np.arange(np.searchsorted(-self.lengths, -position, side="left"))
        drawn = pending.copy()
        while len(pending):
            item = self._propose(pending, position)
            family = self.process.family[item][:, None]
            taken = (self.family[pending, :position] == family).any(axis=1)
            drawn[pending] = item
            pending = pending[taken]
        rows = np.arange(len(drawn))
        self.item[rows, position] = drawn
        self.family[rows, position] = self.process.family[drawn]
        theme = self.process.theme[drawn]
        themed = rows[theme != self.process.staples]
        self.themes[themed, self.n_themed[themed]] = theme[themed]
        self.n_themed[themed] += 1

    def _propose(self, rows: Pending, position: int) -> Pending:
        """Draws from q, one a row."""
        theme = self._themes(rows)
        draw = self.random.random(len(rows))
        # Shares of each theme sum to 1, so those of theme s lie between s and s + 1.
        item = np.searchsorted(self.upto_item, theme + draw, side="right")
        item = np.minimum(item, self.last_of_theme[theme])
        if not position:
            return item
        partner = self.process.partner[self.item[rows, position - 1]]
        follows = (partner >= 0) & (self.random.random(len(rows)) < self.process.settings.follow)
        return np.where(follows, partner, item)

    def _themes(self, rows: Pending) -> Int[np.ndarray, "pending"]:
        """Draws of the theme, m, one a row."""
        settings, random, n_themed = self.process.settings, self.random, self.n_themed[rows]
        theme = np.searchsorted(self.upto_theme, random.random(len(rows)), side="right")
        theme = np.minimum(theme, self.process.staples - 1)
        what = random.random(len(rows))
        earlier = (random.random(len(rows)) * n_themed).astype(np.int64)
        index = np.where(what < settings.stay, n_themed - 1, earlier)
        known = (n_themed > 0) & (what < settings.stay + settings.back)
        theme = np.where(known, self.themes[rows, index], theme)
        return np.where(random.random(len(rows)) < settings.staple, self.process.staples, theme)
