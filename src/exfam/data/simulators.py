"""Data whose truth is known: the paper's ratings, and latent factor data of any family."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped

from exfam.checks import ExfamError, check_positive
from exfam.families import Family
from exfam.groups import Groups

__all__ = [
    "RATING_CASES",
    "Simulated",
    "ratings_cases",
    "ratings_true_means",
    "simulate_latent_factor",
    "simulate_ratings",
]

N_MOVIES = 5
# Case of a movie (numbered from 1, as in the paper) in its order -> mean rating.
RATING_CASES = {
    "any other": 3.0,
    "2 before 1": 5.0,
    "2 after 1": 1.0,
    "4 right after 3": 1.0,
    "3 right after 4": 1.0,
    "5 last": 5.0,
}


def simulate_ratings(n_users: int = 10_000, *, seed: int) -> Groups:
    """Ratings of 5 movies by users who see them in random order; the order moves the means.

    Ratings are normal with variance 1 about `ratings_true_means`. Items are movies 1 to 5 (codes
    0 to 4), the value column is "value". Seed 42 gives the draw of the paper's notebook, which
    fits on the first 7,500 users.
    Source: Appendix H.1 of the paper; seed 42 its notebook.

    >>> simulate_ratings(3, seed=42)
    Groups(3 groups, 15 elements, 5 items, value)
    """
    check_positive("n_users", n_users)
    # The notebook's generator and order of draws: a permutation, then its ratings, user by user.
    random = np.random.RandomState(seed)
    order = np.empty((n_users, N_MOVIES), dtype=np.int64)
    value = np.empty((n_users, N_MOVIES))
    for user in range(n_users):
        order[user] = random.permutation(N_MOVIES)
        value[user] = random.standard_normal(N_MOVIES)
    value += _means(_cases(order))
    start = np.arange(n_users) * N_MOVIES
    return Groups(
        start=start,
        stop=start + N_MOVIES,
        item=order.ravel(),
        values={"value": value.ravel()},
        vocabulary={"item": np.array([f"movie {n + 1}" for n in range(N_MOVIES)], dtype=object)},
        group_names=np.arange(n_users),
    )


def ratings_true_means(groups: Groups) -> Float[np.ndarray, "own"]:
    """The mean of each rating given the order of the movies, for all elements of `groups`.

    No predictor has a smaller expected squared error, whichever ratings it sees: given the order,
    ratings are independent, and no mean depends on movies that come later.

    >>> groups = simulate_ratings(1, seed=42)
    >>> groups.item + 1
    array([2, 5, 3, 1, 4], dtype=int32)
    >>> ratings_true_means(groups)
    array([5., 3., 3., 3., 3.])
    """
    return _means(_cases(_orders(groups))).ravel()


def ratings_cases(groups: Groups) -> Shaped[np.ndarray, "own"]:
    """Which of RATING_CASES decides the mean of each rating, for all elements of `groups`.

    >>> ratings_cases(simulate_ratings(1, seed=42)).tolist()
    ['2 before 1', 'any other', 'any other', 'any other', 'any other']
    """
    return np.array(list(RATING_CASES), dtype=object)[_cases(_orders(groups))].ravel()


def _orders(groups: Groups) -> Int64[np.ndarray, "users 5"]:
    item = None if groups.item is None else groups.item[groups.elements()].astype(np.int64)
    is_whole = item is not None and (groups.stop - groups.start == N_MOVIES).all()
    if item is None or not is_whole:
        raise ExfamError("`groups` must come from simulate_ratings, got others.")
    order = item.reshape(-1, N_MOVIES)
    if (np.sort(order, axis=1) != np.arange(N_MOVIES)).any():
        raise ExfamError("`groups` must have each of 5 movies once, got others.")
    return order


def _cases(order: Int64[np.ndarray, "users 5"]) -> Int64[np.ndarray, "users 5"]:
    """Number of the case in RATING_CASES for each movie of each order."""
    movie = order + 1
    before = np.concatenate([np.zeros_like(movie[:, :1]), movie[:, :-1]], axis=1)
    seen_1 = np.cumsum(movie == 1, axis=1) > 0
    is_last = np.arange(N_MOVIES) == N_MOVIES - 1
    happens = {
        "2 before 1": (movie == 2) & ~seen_1,
        "2 after 1": (movie == 2) & seen_1,
        "4 right after 3": (movie == 4) & (before == 3),
        "3 right after 4": (movie == 3) & (before == 4),
        "5 last": (movie == 5) & is_last,
    }
    number = {case: n for n, case in enumerate(RATING_CASES)}
    cases = np.full(movie.shape, number["any other"])
    for case, where in happens.items():
        cases[where] = number[case]
    return cases


def _means(cases: Int64[np.ndarray, "users 5"]) -> Float[np.ndarray, "users 5"]:
    return np.array(list(RATING_CASES.values()))[cases]


@dataclass(frozen=True, eq=False)
class Simulated:
    """Simulated groups and the truth behind them.

    `eta` holds the parameters of the family for each element; `score` is their first column.
    """

    groups: Groups
    eta: Float[np.ndarray, "elements params"]
    group_factor: Float[np.ndarray, "groups rank"]
    item_factor: Float[np.ndarray, "items rank"]
    item_offset: Float[np.ndarray, "items"]


def simulate_latent_factor(
    n_groups: int,
    *,
    family: Family,
    seed: int,
    n_items: int = 20,
    rank: int = 2,
    scale: float = 0.5,
    mean_length: float = 8.0,
) -> Simulated:
    """Values of one family whose first parameter is a group's factor times an item's, plus offset.

    Each group has items in random order, none twice, about `mean_length` of them; items that suit
    the group's factor come more often. The first parameter of value i is
    scale (u_g . v_i + b_i) with standard normal u, v / sqrt(rank) and b; the others are 0.

    >>> from exfam.families import Poisson
    >>> simulated = simulate_latent_factor(100, family=Poisson(shift=1), seed=0)
    >>> bool((simulated.groups.values["value"] >= 1).all())
    True
    """
    check_positive("n_groups", n_groups)
    check_positive("n_items", n_items)
    check_positive("rank", rank)
    check_positive("mean_length", mean_length)
    random = np.random.default_rng(seed)
    group_factor = random.normal(size=(n_groups, rank))
    item_factor = random.normal(size=(n_items, rank)) / np.sqrt(rank)
    item_offset = random.normal(size=n_items)
    score = scale * (group_factor @ item_factor.T + item_offset)
    share = np.clip((mean_length - 1) / max(1, n_items - 1), 0.0, 1.0)
    length = 1 + random.binomial(n_items - 1, share, n_groups)
    group = np.repeat(np.arange(n_groups), length)
    item = _draw_items(score, length, random)
    eta = np.zeros((len(item), family.n_params))
    eta[:, 0] = score[group, item]
    generator = torch.Generator().manual_seed(int(random.integers(2**31)))
    value = family.sample(torch.from_numpy(eta), generator=generator, item=torch.from_numpy(item))
    stop = np.cumsum(length)
    groups = Groups(
        start=stop - length,
        stop=stop,
        item=item,
        values={"value": value.numpy().astype(np.float64)},
        vocabulary={"item": np.arange(n_items)},
        group_names=np.arange(n_groups),
    )
    return Simulated(groups, eta, group_factor, item_factor, item_offset)


def _draw_items(
    score: Float[np.ndarray, "groups items"],
    length: Int64[np.ndarray, "groups"],
    random: np.random.Generator,
) -> Int64[np.ndarray, "elements"]:
    """So many items for each group, none twice, with odds exp(score), in random order."""
    # The largest scores with Gumbel noise are draws without replacement, likely ones first.
    ranked = np.argsort(-score - random.gumbel(size=score.shape), axis=1)
    item = ranked[np.arange(score.shape[1]) < length[:, None]]
    group = np.repeat(np.arange(len(length)), length)
    return item[np.lexsort((random.random(len(item)), group))]
