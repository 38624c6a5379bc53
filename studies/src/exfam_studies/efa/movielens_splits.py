"""MovieLens 100K as split in the notebooks of "Exponential Family Attention"."""

import numpy as np
from jaxtyping import Int64

from exfam.checks import check_choice
from exfam.groups import Groups
from exfam.reading.public_sets.movielens import MovieLens, movielens_100k
from exfam_studies.common.splits import NOTEBOOK_SEED, SPLITS, Splits, notebook_parts

N_MOVIES = 50
FRACTIONS = (9 / 16, 3 / 16, 4 / 16)


def movielens_items(split: str = "paper", *, seed: int = 0) -> Splits:
    """Which of the 50 most rated movies each user rates, in order of time: 902 users.

    `split`: "paper" for the test users of the paper's notebooks, whose positions are taken
        for ids, so that 42 users are in no part; "correct" for a random split of all users
        in the same proportions, by `seed`. Validation is by user in both

    Source: experiment 1 of Appendix H.2 of the paper and its notebooks.
    """
    data = movielens_100k()
    kept = _usual_users(data, _most_rated(data, np.arange(len(data.user))))
    return _split(_as_groups(data, _one_a_moment(data, kept)), split, seed)


def movielens_ratings(split: str = "paper", *, seed: int = 0) -> Splits:
    """Ratings 3, 4, 5 less 2 of the 50 movies that have most of them, in order of time: 893 users.

    The value column is "value", in {1, 2, 3}. Arguments as in `movielens_items`; 51 users are in
    no part of the "paper" split.
    Source: experiment 2 of Appendix H.2 of the paper and its notebooks.
    """
    data = movielens_100k()
    kept = _usual_users(data, _most_rated(data, np.flatnonzero(data.rating >= 3)))
    count = np.bincount(data.user[kept])
    rows = _one_a_moment(data, kept[count[data.user[kept]] > 1])
    groups = _as_groups(data, rows)
    return _split(groups.with_(values={"value": data.rating[rows] - 2.0}), split, seed)


def _most_rated(data: MovieLens, rows: Int64[np.ndarray, "rows"]) -> Int64[np.ndarray, "kept"]:
    """The rows of the most rated movies; of two rated equally often, that of lower number."""
    count = np.bincount(data.movie[rows])
    most = np.argsort(-count, kind="stable")[:N_MOVIES]
    return rows[np.isin(data.movie[rows], most)]


def _usual_users(data: MovieLens, rows: Int64[np.ndarray, "rows"]) -> Int64[np.ndarray, "kept"]:
    """The rows of users with less than two ratings for each distinct moment."""
    count = np.bincount(data.user[rows])
    moments = np.unique(np.stack([data.user[rows], data.time[rows]]), axis=1)
    distinct = np.bincount(moments[0], minlength=len(count))
    return rows[(count < 2 * distinct)[data.user[rows]]]


def _one_a_moment(data: MovieLens, rows: Int64[np.ndarray, "rows"]) -> Int64[np.ndarray, "kept"]:
    """One row for each user and moment, by user and time, as the notebooks draw it.

    They draw with pandas' `sample(n=1, random_state=42)` anew for each moment, so the position
    drawn depends on the number of candidates alone.
    """
    rows = rows[np.lexsort((rows, data.time[rows], data.user[rows]))]
    moment = np.stack([data.user[rows], data.time[rows]])
    is_first = np.append(True, (moment[:, 1:] != moment[:, :-1]).any(axis=0))
    first = np.flatnonzero(is_first)
    size = np.diff(np.append(first, len(rows)))
    drawn = np.zeros(size.max() + 1, dtype=np.int64)
    for n in np.unique(size):
        drawn[n] = np.random.RandomState(NOTEBOOK_SEED).permutation(n)[0]
    return rows[first + drawn[size]]


def _as_groups(data: MovieLens, rows: Int64[np.ndarray, "rows"]) -> Groups:
    """Users as groups; movies coded by first appearance, as the notebooks do."""
    movies, first, item = np.unique(data.movie[rows], return_index=True, return_inverse=True)
    code = np.argsort(np.argsort(first))
    users, start = np.unique(data.user[rows], return_index=True)
    return Groups(
        start=start,
        stop=np.append(start[1:], len(rows)),
        item=code[item],
        vocabulary={"item": data.title[movies[np.argsort(first)] - 1]},
        source_row=rows,
        group_names=users,
        ordered=True,  # by time
    )


def _split(groups: Groups, split: str, seed: int) -> Splits:
    check_choice("split", split, SPLITS)
    if split == "correct":
        return Splits(*groups.split(FRACTIONS, seed=seed))
    n_users = len(groups)
    users = np.asarray(groups.group_names)
    order = np.random.RandomState(NOTEBOOK_SEED).permutation(n_users)
    n_fit = 3 * n_users // 4
    # The notebooks take these positions for user ids: users with an id of n_users or more, and
    # positions that are no user's id, drop out.
    fit = groups[np.isin(users, order[order[:n_fit]])]
    test = groups[np.isin(users, order[order[n_fit:]])]
    train, validation = notebook_parts(len(fit))
    return Splits(train=fit[train], validation=fit[validation], test=test)
