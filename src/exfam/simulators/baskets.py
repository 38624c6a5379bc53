"""Baskets whose next item has an exact probability: what shoppers do, and its conditionals.

A catalog has themes (dinner, baby, garden) and staples (milk, bags), popular and rare ones alike.
The next item of a basket depends on its earlier items alone. Before exclusion, item d comes with

    q(d) = (1 - follow) m(theme of d) W(d) + follow [d is the partner of the last item]

where `follow` counts as 0 if the last item has no partner, W(d) is the share of d in its theme, and

    m(staples) = staple
    m(s)       = (1 - staple) { stay [s is the theme of the most recent themed item]
                              + back (share of s among the themed items so far)
                              + (1 - stay - back) P(s) }

with P(s) the popularity of theme s (alone in the braces while there is no themed item). Items of
the basket, and their substitutes, cannot come any more, so that p(d) = q(d) / sum of q over what
can, and 0 for what cannot.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Int64

from exfam.checks import DataError, ExfamError, check_fraction, check_positive
from exfam.groups import Groups

_ENTRIES_AT_ONCE = 4_000_000
# Zipf-Mandelbrot: popularity falls as 1 / (rank + 5), of themes and of items in a theme.
_ZIPF_SHIFT = 5.0

Targets = Int64[np.ndarray, "targets"]
Context = Int[np.ndarray, "targets earlier"]
Chosen = Int[np.ndarray, "targets chosen"]
Chances = Float[np.ndarray, "targets chosen"]


@dataclass(frozen=True)
class BasketSettings:
    """Sizes of a catalog and shares of what shoppers do next.

    `theme_size`: mean number of items of a theme
    `staple_items`: share of the items that are staples, at least one item
    `substituted`: share of a theme's items that have a substitute, its popular ones
    `complemented`: share of the themed items that have a partner
    `follow`: probability of the partner after an item that has one
    `staple`: probability of a staple
    `stay`, `back`: of the theme of the most recent, or of some earlier themed item
    `median_length`, `length_spread`, `max_length`: lengths are log-normal, rounded and cut

    Raises ExfamError for a share outside [0, 1), or where `stay` and `back` leave nothing over.
    """

    theme_size: int = 100
    staple_items: float = 0.01
    substituted: float = 0.2
    complemented: float = 0.05
    follow: float = 0.4
    staple: float = 0.2
    stay: float = 0.6
    back: float = 0.15
    median_length: float = 8.0
    length_spread: float = 0.7
    max_length: int = 60

    def __post_init__(self) -> None:
        for name in ("theme_size", "median_length", "max_length"):
            check_positive(name, getattr(self, name))
        check_positive("length_spread", self.length_spread, zero=True)
        shares = ("staple_items", "substituted", "complemented", "follow", "staple", "stay", "back")
        for name in shares:
            check_fraction(name, getattr(self, name))
        check_fraction("stay + back", self.stay + self.back)


@dataclass(frozen=True, eq=False)
class BasketProcess:
    """The truth behind simulated baskets: a catalog and the exact conditionals p(item | earlier).

    Items are sorted by theme, popular ones first; staples are the last theme. `share` is W and sums
    to 1 in each theme, `popularity` is P with a 0 for staples. `partner` is -1 where an item has
    none. Items of one `family` are substitutes: a basket holds one of them at most.
    """

    settings: BasketSettings
    theme: Int64[np.ndarray, "items"]
    share: Float[np.ndarray, "items"]
    popularity: Float[np.ndarray, "themes"]
    partner: Int64[np.ndarray, "items"]
    family: Int64[np.ndarray, "items"]

    @property
    def n_items(self) -> int:
        """Size of the catalog."""
        return len(self.theme)

    @property
    def staples(self) -> int:
        """Which theme is that of the staples."""
        return len(self.popularity) - 1

    def log_prob(self, groups: Groups) -> Float[np.ndarray, "own"]:
        """Exact log-probability in nats of each own element given the earlier ones of its group.

        No model has a higher expected mean: this is the Bayes optimum.
        Raises DataError for groups that the process cannot have drawn.
        """
        nats = np.full(groups.n_elements, -np.inf)
        for rows, earlier, own in self._positions(groups, at_once=None):
            likely = self._proposal(earlier, own[:, None])[:, 0]
            nats[rows] = np.log(likely) - np.log1p(-self._excluded_mass(earlier))
        return nats

    def probabilities(self, groups: Groups) -> Float[np.ndarray, "own items"]:
        """Probability of every item at each own element given the earlier ones: take few groups.

        >>> process = draw_process(30, settings=BasketSettings(theme_size=10, max_length=5), seed=0)
        >>> groups = Groups(start=[0], stop=[2], item=[0, 5], vocabulary={"item": np.arange(30)})
        >>> process.probabilities(groups).sum(axis=1).round(6)
        array([1., 1.])
        """
        out = np.empty((groups.n_elements, self.n_items))
        at_once = max(1, _ENTRIES_AT_ONCE // self.n_items)
        for rows, earlier, _ in self._positions(groups, at_once=at_once):
            every_theme = np.tile(np.arange(len(self.popularity)), (len(rows), 1))
            of_theme = self._theme_chances(earlier, every_theme)
            partner, follow = self._follow(earlier)
            chance = (1 - follow)[:, None] * of_theme[:, self.theme] * self.share
            chance[np.arange(len(rows)), partner] += follow
            gone = np.zeros((len(rows), int(self.family.max()) + 1), dtype=bool)
            np.put_along_axis(gone, self.family[earlier], True, axis=1)
            chance[gone[:, self.family]] = 0.0
            out[rows] = chance / chance.sum(axis=1, keepdims=True)
        return out

    def _positions(
        self, groups: Groups, *, at_once: int | None
    ) -> Iterator[tuple[Targets, Context, Targets]]:
        """Elements with equally many earlier ones: where they are, those earlier, their items."""
        self._check(groups)
        assert groups.item is not None
        item = groups.item[groups.elements()].astype(np.int64)
        length = groups.stop - groups.start
        first = np.cumsum(length) - length
        for n_earlier in range(int(length.max(initial=0))):
            some = first[length > n_earlier]
            step = at_once or max(1, _ENTRIES_AT_ONCE // (n_earlier + 1) ** 2)
            for cut in range(0, len(some), step):
                start = some[cut : cut + step]
                earlier = item[start[:, None] + np.arange(n_earlier)]
                yield start + n_earlier, earlier, item[start + n_earlier]

    def _check(self, groups: Groups) -> None:
        item = np.array([-1]) if groups.item is None else groups.item[groups.elements()]
        if item.min(initial=0) < 0 or item.max(initial=-1) >= self.n_items:
            raise DataError(f"`groups` must hold items 0 .. {self.n_items - 1} alone, got others.")
        held = groups.with_(item=self.family[groups.item], vocabulary={})
        if (twice := held.first_repeat()) is not None:
            raise DataError(
                "`groups` must not hold an item or its substitutes twice, got such items in group "
                f"{twice[0]}. Take baskets of the process itself."
            )

    def _follow(self, earlier: Context) -> tuple[Targets, Float[np.ndarray, "targets"]]:
        """The partner of the last item, and its probability: 0 (and any item) without one."""
        if not earlier.shape[1]:
            return np.zeros(len(earlier), dtype=np.int64), np.zeros(len(earlier))
        partner = self.partner[earlier[:, -1]]
        return np.maximum(partner, 0), np.where(partner >= 0, self.settings.follow, 0.0)

    def _theme_chances(self, earlier: Context, theme: Chosen) -> Chances:
        """m of each theme in `theme`, one row of them a target."""
        settings, before = self.settings, self.theme[earlier]
        is_themed = before != self.staples
        n_themed = is_themed.sum(axis=1, keepdims=True)
        kept = np.where(n_themed > 0, settings.stay + settings.back, 0.0)
        chance = (1 - kept) * self.popularity[theme]
        if before.shape[1]:
            latest = before.shape[1] - 1 - np.argmax(is_themed[:, ::-1], axis=1, keepdims=True)
            recent = np.take_along_axis(before, latest, axis=1)
            count = (theme[:, :, None] == before[:, None, :]).sum(axis=2)
            back = settings.back * count / np.maximum(n_themed, 1)
            chance = chance + settings.stay * (theme == recent) + back
        chance *= 1 - settings.staple
        chance[theme == self.staples] = settings.staple
        return chance

    def _proposal(self, earlier: Context, item: Chosen) -> Chances:
        """q of each item in `item`, one row of them a target."""
        partner, follow = self._follow(earlier)
        chance = self._theme_chances(earlier, self.theme[item]) * self.share[item]
        return (1 - follow[:, None]) * chance + follow[:, None] * (item == partner[:, None])

    def _excluded_mass(self, earlier: Context) -> Float[np.ndarray, "targets"]:
        """Sum of q over the items of the context and their substitutes."""
        partner, follow = self._follow(earlier)
        family_share = np.bincount(self.family, weights=self.share)[self.family]
        mass = self._theme_chances(earlier, self.theme[earlier]) * family_share[earlier]
        is_gone = (self.family[partner][:, None] == self.family[earlier]).any(axis=1)
        return (1 - follow) * mass.sum(axis=1) + follow * is_gone


def draw_process(
    n_items: int, *, settings: BasketSettings | None = None, seed: int
) -> BasketProcess:
    """A catalog of `n_items`: themes, popularity, substitutes and partners.

    Themes vary in size. The popular items of a theme are substitutes in pairs; partners and the
    items that call for them are drawn by popularity.
    Raises ExfamError if a basket of the longest length could run out of items.

    >>> process = draw_process(5_000, seed=0)
    >>> process.n_items, int(process.theme.max()) == process.staples
    (5000, True)
    """
    settings = settings or BasketSettings()
    check_positive("n_items", n_items)
    random = np.random.default_rng(seed)
    n_staples = max(1, round(settings.staple_items * n_items))
    sizes = _theme_sizes(n_items - n_staples, settings, random)
    theme = np.repeat(np.arange(len(sizes) + 1), [*sizes, n_staples])
    rank = np.arange(n_items) - np.searchsorted(theme, theme)
    share = 1 / (rank + _ZIPF_SHIFT)
    share /= np.bincount(theme, weights=share)[theme]
    popularity = 1 / (random.permutation(len(sizes)) + _ZIPF_SHIFT)
    popularity = np.append(popularity / popularity.sum(), 0.0)
    is_staple = theme == len(sizes)
    paired = ~is_staple & (
        rank < 2 * np.floor(np.append(sizes, 0) * settings.substituted / 2)[theme]
    )
    _, family = np.unique(
        np.where(paired, 2 * (rank // 2), rank) + n_items * theme, return_inverse=True
    )
    n_families = len(np.unique(family[~is_staple]))
    if n_families < settings.max_length:
        raise ExfamError(
            f"`max_length` must be at most {n_families}, the number of themed items that do not "
            f"exclude one another, got {settings.max_length}. Raise `n_items` or shorten baskets."
        )
    odds = popularity[theme] * share
    partner = _partners(odds, settings, random)
    return BasketProcess(settings, theme, share, popularity, partner, family)


def _theme_sizes(
    n_themed: int, settings: BasketSettings, random: np.random.Generator
) -> Int64[np.ndarray, "themes"]:
    """Sizes of about `theme_size`, each at least 1, that add up."""
    n_themes = max(1, round(n_themed / settings.theme_size))
    odds = random.uniform(0.5, 1.5, n_themes)
    more = random.multinomial(max(0, n_themed - n_themes), odds / odds.sum())
    return (more + 1)[: max(n_themed, 0)]


def _partners(
    odds: Float[np.ndarray, "items"], settings: BasketSettings, random: np.random.Generator
) -> Int64[np.ndarray, "items"]:
    """The partner of each item, -1 for none: of disjoint items drawn by their odds."""
    partner = np.full(len(odds), -1)
    n_pairs = int(settings.complemented * (odds > 0).sum())
    drawn = random.choice(len(odds), 2 * n_pairs, replace=False, p=odds)
    partner[drawn[:n_pairs]] = drawn[n_pairs:]
    return partner
