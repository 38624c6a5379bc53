"""MovieLens 100K: the ratings with what is known of movies and users."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int64

from exfam.reading.public_sets.published import Archive, PublicFiles, read_file

SOURCE = PublicFiles(
    "movielens-100k",
    how_to_get="Unpack https://files.grouplens.org/datasets/movielens/ml-100k.zip, put u.data, "
    "u.item and u.user into FOLDER/movielens and set EXFAM_DATA=FOLDER.",
    md5={
        "movielens/u.data": "6e47046882bad158b0efbb84cd5cb987",
        "movielens/u.item": "98ebc04045a847602cad972eb5316c75",
        "movielens/u.user": "1b53539edc13caad0282c8500608a319",
    },
    archive=Archive(
        "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
        {f"movielens/u.{part}": f"ml-100k/u.{part}" for part in ("data", "item", "user")},
    ),
)
GENRES = (
    ("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime")
    + ("Documentary", "Drama", "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery")
    + ("Romance", "Sci-Fi", "Thriller", "War", "Western")
)


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


def movielens_100k() -> MovieLens:
    """MovieLens 100K: 943 users, 1,682 movies, 100,000 ratings.

    Raises DataError if the files are not there or not the published ones.
    Source: Harper & Konstan (2015), https://grouplens.org/datasets/movielens/100k/.
    """
    ratings = np.array(read_file(SOURCE, "movielens/u.data").split(), dtype=np.int64).reshape(-1, 4)
    movies = _fields("movielens/u.item", encoding="latin-1")
    users = _fields("movielens/u.user", encoding="ascii")
    user, movie, rating, time = map(np.ascontiguousarray, ratings.T)
    title = np.array([fields[1] for fields in movies], dtype=object)
    genres = np.array([fields[-19:] for fields in movies], dtype=np.float32)
    age = np.array([fields[1] for fields in users], dtype=np.float32)
    sex = np.array([fields[2] for fields in users], dtype=object)
    occupation = np.array([fields[3] for fields in users], dtype=object)
    return MovieLens(user, movie, rating, time, title, genres, age, sex, occupation)


def _fields(name: str, *, encoding: str) -> list[list[str]]:
    lines = read_file(SOURCE, name).decode(encoding).split("\n")
    return [line.split("|") for line in lines[:-1]]  # the last line, too, ends with a line end


def movielens_table() -> pa.Table:
    """The ratings of MovieLens 100K, a row each, in the file's order.

    Columns `user`, `movie` (its title; with its number where two movies share one), `rating` in
    1..5, `time` in seconds since 1970; of the movie `movie_number`, `genres`; of the user `age`,
    `sex`, `occupation`.
    Raises DataError if the files cannot be had or are not the published ones.
    """
    data = movielens_100k()
    movie, user = data.movie - 1, data.user - 1
    # 18 pairs of movies have the same title.
    names, code, count = np.unique(data.title, return_inverse=True, return_counts=True)
    titles = data.title.copy()
    for index in np.flatnonzero(count[code] > 1):
        titles[index] = f"{names[code[index]]} [{index + 1}]"
    genres = np.array(["|".join(np.array(GENRES)[held > 0]) for held in data.genres], dtype=object)
    columns = {
        "user": data.user,
        "movie": titles[movie],
        "rating": data.rating,
        "time": data.time,
        "movie_number": data.movie,
        "genres": genres[movie],
        "age": data.age[user],
        "sex": data.sex[user],
        "occupation": data.occupation[user],
    }
    return pa.table({name: pa.array(column) for name, column in columns.items()})
