"""Ratings whose means depend on the order of the movies: the paper's simulation."""

import numpy as np
from jaxtyping import Float, Int64, Shaped

from exfam.checks import ExfamError, check_positive
from exfam.groups import Groups

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
_MEANS = np.array(list(RATING_CASES.values()))


def simulate_ratings(n_users: int = 10_000, *, seed: int) -> Groups:
    """Ratings of 5 movies by users who see them in random order; the order moves the means.

    Ratings are normal with variance 1 about `ratings_true_means`. Items are movies 1 to 5 (codes
    0 to 4), the value column is "value".
    Source: Appendix H.1 of the paper; seed 42 gives the draw of its notebook, which fits on the
    first 7,500 users.

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
    value += _MEANS[_cases(order)]
    start = np.arange(n_users) * N_MOVIES
    return Groups(
        start=start,
        stop=start + N_MOVIES,
        item=order.ravel(),
        values={"value": value.ravel()},
        vocabulary={"item": np.array([f"movie {n + 1}" for n in range(N_MOVIES)], dtype=object)},
        group_names=np.arange(n_users),
        ordered=True,
    )


def ratings_true_means(groups: Groups) -> Float[np.ndarray, "own"]:
    """The mean of each rating given the order of the movies, for all elements of `groups`.

    No predictor has a smaller expected squared error, whichever ratings it sees: given the order,
    ratings are independent, and no mean depends on movies that come later.

    >>> ratings_true_means(simulate_ratings(1, seed=42))
    array([5., 3., 3., 3., 3.])
    """
    return _MEANS[_cases(_orders(groups))].ravel()


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
    names = list(RATING_CASES)
    return np.select(list(happens.values()), [names.index(case) for case in happens])
