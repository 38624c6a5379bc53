"""Public data sets, read from the folder that EXFAM_DATA names and checked by their md5."""

import gzip
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int64

from exfam.checks import DataError, check_choice
from exfam.groups import Groups

__all__ = [
    "GENRES",
    "MovieLens",
    "Splits",
    "movielens_100k",
    "movielens_items",
    "movielens_ratings",
    "public_path",
]

HOW_TO_GET = {
    "movielens": "Unpack https://files.grouplens.org/datasets/movielens/ml-100k.zip, run gzip on "
    "u.data, u.item and u.user, put them into FOLDER/movielens and set EXFAM_DATA=FOLDER."
}
MD5 = {
    "movielens/u.data.gz": "6e47046882bad158b0efbb84cd5cb987",
    "movielens/u.item.gz": "98ebc04045a847602cad972eb5316c75",
    "movielens/u.user.gz": "1b53539edc13caad0282c8500608a319",
}
GENRES = (
    ("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime")
    + ("Documentary", "Drama", "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery")
    + ("Romance", "Sci-Fi", "Thriller", "War", "Western")
)
N_MOVIES = 50
# The notebooks' one seed, for their legacy generator.
NOTEBOOK_SEED = 42
FRACTIONS = (9 / 16, 3 / 16, 4 / 16)


@dataclass(frozen=True, eq=False)
class Splits:
    """Disjoint groups to fit on, to choose by and to report on."""

    train: Groups
    validation: Groups
    test: Groups


@dataclass(frozen=True, eq=False)
class MovieLens:
    """The 100,000 ratings of MovieLens 100K as they stand in the file, with movies and users.

    Movie m has row m - 1 of `title` and `genres` (columns as in GENRES), user u row u - 1 of
    `age`, `sex` and `occupation`. `time` is in seconds since 1970, `rating` in 1..5.
    """

    user: Int64[np.ndarray, "ratings"]
    movie: Int64[np.ndarray, "ratings"]
    rating: Int64[np.ndarray, "ratings"]
    time: Int64[np.ndarray, "ratings"]
    title: np.ndarray
    genres: Float[np.ndarray, "movies 19"]
    age: Float[np.ndarray, "users"]
    sex: np.ndarray
    occupation: np.ndarray


def public_path(name: str) -> Path:
    """The file `name` (such as "movielens/u.data.gz") in the folder that EXFAM_DATA names.

    Raises DataError, saying where to get the data, if there is no such folder or file.
    """
    folder = os.environ.get("EXFAM_DATA", "")
    advice = HOW_TO_GET.get(name.partition("/")[0], "")
    if not folder or not Path(folder).is_dir():
        got = repr(folder) if folder else "nothing"
        message = f"`EXFAM_DATA` must name the folder of public data sets, got {got}. {advice}"
        raise DataError(message.rstrip())
    path = Path(folder) / name
    if not path.is_file():
        raise DataError(f"`EXFAM_DATA` must hold {name}, got no such file in {folder}. {advice}")
    return path


def _read(name: str) -> bytes:
    path = public_path(name)
    content = gzip.decompress(path.read_bytes())
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if md5 != MD5[name]:
        raise DataError(
            f"`{name}` must have md5 {MD5[name]} when unpacked, got {md5} in {path}. "
            f"{HOW_TO_GET[name.partition('/')[0]]}"
        )
    return content


def movielens_100k() -> MovieLens:
    """MovieLens 100K: 943 users, 1,682 movies, 100,000 ratings.

    Raises DataError if the files are not there or not the published ones.
    Source: Harper & Konstan (2015), https://grouplens.org/datasets/movielens/100k/.
    """
    ratings = np.array(_read("movielens/u.data.gz").split(), dtype=np.int64).reshape(-1, 4)
    movies = [
        line.split("|") for line in _read("movielens/u.item.gz").decode("latin-1").split("\n")
    ]
    users = [line.split("|") for line in _read("movielens/u.user.gz").decode("ascii").split("\n")]
    movies, users = movies[:-1], users[:-1]  # each line, the last too, ends with a line end
    user, movie, rating, time = (np.ascontiguousarray(column) for column in ratings.T)
    return MovieLens(
        user=user,
        movie=movie,
        rating=rating,
        time=time,
        title=np.array([movie[1] for movie in movies], dtype=object),
        genres=np.array([movie[-19:] for movie in movies], dtype=np.float32),
        age=np.array([user[1] for user in users], dtype=np.float32),
        sex=np.array([user[2] for user in users], dtype=object),
        occupation=np.array([user[3] for user in users], dtype=object),
    )


def movielens_items(split: str = "paper", *, seed: int = 0, attributes: bool = False) -> Splits:
    """Which of the 50 most rated movies each user rates, in order of time: 902 users.

    `split`: "paper" for the test users of the paper's notebooks, who are told by positions taken
        for ids, so that 42 users are in no part; "correct" for a random split of all users
        in the same proportions, by `seed`. Validation is by user in both (default "paper")
    `attributes`: also genres of movies, and age, sex and occupation of users (default False)

    Source: experiment 1 of Appendix H.2 of the paper and its notebooks.
    """
    data = movielens_100k()
    kept = _usual_users(data, _most_rated(data, np.arange(len(data.user))))
    return _split(_as_groups(data, _one_a_moment(data, kept), attributes), split, seed)


def movielens_ratings(split: str = "paper", *, seed: int = 0, attributes: bool = False) -> Splits:
    """Ratings 3, 4, 5 less 2 of the 50 movies that have most of them, in order of time: 893 users.

    The value column is "value", in {1, 2, 3}. Arguments as in `movielens_items`; 51 users are in
    no part of the "paper" split.

    `split`: "paper" or "correct" (default "paper")
    `attributes`: also genres of movies, and age, sex and occupation of users (default False)

    Source: experiment 2 of Appendix H.2 of the paper and its notebooks.
    """
    data = movielens_100k()
    kept = _usual_users(data, _most_rated(data, np.flatnonzero(data.rating >= 3)))
    count = np.bincount(data.user[kept])
    rows = _one_a_moment(data, kept[count[data.user[kept]] > 1])
    groups = _as_groups(data, rows, attributes)
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

    They draw with pandas' `sample(n=1, random_state=42)` anew for each moment, so the place drawn
    depends on the number of candidates alone.
    """
    rows = rows[np.lexsort((rows, data.time[rows], data.user[rows]))]
    moment = np.stack([data.user[rows], data.time[rows]])
    is_first = np.append(True, (moment[:, 1:] != moment[:, :-1]).any(axis=0))
    first = np.flatnonzero(is_first)
    size = np.diff(np.append(first, len(rows)))
    places = np.zeros(size.max() + 1, dtype=np.int64)
    for n in np.unique(size):
        places[n] = np.random.RandomState(NOTEBOOK_SEED).permutation(n)[0]
    return rows[first + places[size]]


def _as_groups(data: MovieLens, rows: Int64[np.ndarray, "rows"], attributes: bool) -> Groups:
    """Users as groups; movies coded by first appearance, as the notebooks do."""
    movies, first, item = np.unique(data.movie[rows], return_index=True, return_inverse=True)
    code = np.argsort(np.argsort(first))
    users, start = np.unique(data.user[rows], return_index=True)
    groups = Groups(
        start=start,
        stop=np.append(start[1:], len(rows)),
        item=code[item],
        vocabulary={"item": data.title[movies[np.argsort(first)] - 1]},
        source_row=rows,
        group_names=users,
    )
    return _with_attributes(groups, data) if attributes else groups


def _with_attributes(groups: Groups, data: MovieLens) -> Groups:
    user = np.asarray(groups.group_names) - 1
    sexes, sex = np.unique(data.sex, return_inverse=True)
    occupations, occupation = np.unique(data.occupation, return_inverse=True)
    return groups.with_(
        attributes={"genres": data.genres[data.movie[groups.source_row] - 1]},
        group_attributes={"age": data.age[user], "sex": sex[user], "occupation": occupation[user]},
        vocabulary=groups.vocabulary | {"sex": sexes, "occupation": occupations},
    )


def _split(groups: Groups, split: str, seed: int) -> Splits:
    check_choice("split", split, ("paper", "correct"))
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
    # What scikit-learn's train_test_split(test_size=0.25, random_state=42) draws.
    drawn = np.random.RandomState(NOTEBOOK_SEED).permutation(len(fit))
    n_validation = -(-len(fit) // 4)
    return Splits(
        train=fit[np.sort(drawn[n_validation:])],
        validation=fit[np.sort(drawn[:n_validation])],
        test=test,
    )
