import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split

from exfam.reading.public_sets.movielens import GENRES, movielens_100k
from exfam.reading.public_sets.named import public
from exfam_studies.efa.movielens_splits import movielens_items, movielens_ratings

PARTS = ("train", "validation", "test")
READERS = {"items": movielens_items, "ratings": movielens_ratings}


@pytest.fixture(scope="module")
def data(data_folder):
    return movielens_100k()


@pytest.fixture(scope="module", params=READERS.values(), ids=READERS.keys())
def reader(request, data_folder):
    return request.param


def sizes(splits):
    parts = [getattr(splits, name) for name in PARTS]
    return [len(part) for part in parts], [part.n_elements for part in parts]


def users(splits):
    return [set(getattr(splits, name).group_names.tolist()) for name in PARTS]


def test_movielens_is_whole(data):
    assert len(data.user) == len(data.movie) == len(data.rating) == len(data.time) == 100_000
    assert (data.user[0], data.movie[0], data.rating[0], data.time[0]) == (196, 242, 3, 881250949)
    assert len(data.title) == 1682 and len(data.age) == 943
    assert data.title[0] == "Toy Story (1995)"
    assert data.title[267] == "Chasing Amy (1997)"
    genres = [GENRES[k] for k in np.flatnonzero(data.genres[0])]
    assert genres == ["Animation", "Children's", "Comedy"]
    assert (data.age[0], data.sex[0], data.occupation[0]) == (24, "M", "technician")


@pytest.mark.parametrize(
    ("name", "papers", "whole"),
    [
        ("items", ([480, 161, 219], [7252, 2484, 3408]), (902, 13_757)),
        ("ratings", ([473, 158, 211], [6716, 1991, 3038]), (893, 12_465)),
    ],
)
def test_parts_are_as_large_as_the_papers(data_folder, name, papers, whole):
    splits, correct = READERS[name](), READERS[name]("correct")
    assert sizes(splits) == papers and (sum(sizes(correct)[0]), correct.train.n_rows) == whole
    if name == "ratings":
        assert set(splits.train.values["value"].tolist()) == {1.0, 2.0, 3.0}
    else:
        first = splits.test[0]
        assert (first.item[first.elements()] + 1).tolist() == [29, 37, 2, 5, 49, 21, 18, 6, 28]
        assert splits.test.n_items == 50 and not splits.test.values


def test_parts_are_disjoint_and_the_correct_split_loses_nobody(reader):
    for split in ("paper", "correct"):
        train, validation, test = users(reader(split))
        assert not (train & validation or train & test or validation & test)
    assert users(reader("correct", seed=1)) != users(reader("correct", seed=2))
    n_users = len(train | validation | test)
    assert n_users == {movielens_items: 902, movielens_ratings: 893}[reader]
    assert len(train) / n_users == pytest.approx(9 / 16, abs=1e-3)
    paper = users(reader("paper"))
    lost = {movielens_items: 42, movielens_ratings: 51}[reader]
    assert sum(len(part) for part in paper) == n_users - lost


def from_pandas(data, *, ratings):
    """The notebooks' steps in pandas and scikit-learn, as in the appendix of the paper."""
    frame = pd.DataFrame(
        {"user": data.user, "item": data.movie, "rating": data.rating, "time": data.time}
    )
    if ratings:
        frame = frame[frame.rating >= 3]
    counts = frame["item"].value_counts().drop(357 if ratings else 191)
    frame = frame[frame["item"].isin(counts.index[:50])]
    by_user = frame.groupby("user")
    frame = frame[frame.user.map(by_user.size() < 2 * by_user.time.nunique())]
    if ratings:
        frame = frame[frame.user.map(frame.groupby("user").size()) > 1]
    moments = [group.sample(n=1, random_state=42) for _, group in frame.groupby(["user", "time"])]
    frame = pd.concat(moments).sort_values(["user", "time"])
    frame["code"] = pd.factorize(frame["item"])[0]
    n_users = frame.user.nunique()
    order = np.random.RandomState(42).permutation(n_users)
    fit = frame[frame.user.isin(order[order[: 3 * n_users // 4]])]
    test = frame[frame.user.isin(order[order[3 * n_users // 4 :]])]
    train, validation = train_test_split(fit.user.unique(), test_size=0.25, random_state=42)
    return fit[fit.user.isin(train)], fit[fit.user.isin(validation)], test


def test_pandas_and_scikit_learn_agree_row_by_row(reader, data):
    splits = reader()
    expected = from_pandas(data, ratings=reader is movielens_ratings)
    for name, frame in zip(PARTS, expected, strict=True):
        groups = getattr(splits, name)
        rows = groups.elements()
        assert groups.source_row[rows].tolist() == frame.index.tolist()
        assert groups.item[rows].tolist() == frame.code.tolist()
        assert groups.group_names.tolist() == frame.user.unique().tolist()


def test_the_table_has_every_rating_with_what_is_known_of_it(data):
    table = public("movielens-100k")
    assert table.num_rows == 100_000
    for name in ("user", "rating", "time"):
        assert table[name].to_pylist() == getattr(data, name).tolist()
    assert table["movie_number"].to_pylist() == data.movie.tolist()
    first = table.slice(0, 1).to_pylist()[0]
    number, user = first["movie_number"] - 1, first["user"] - 1
    assert first["movie"] == data.title[number] == "Kolya (1996)"
    assert first["genres"].split("|") == [GENRES[k] for k in np.flatnonzero(data.genres[number])]
    known = (data.age[user], data.sex[user], data.occupation[user])
    assert (first["age"], first["sex"], first["occupation"]) == known


def test_two_movies_of_one_title_stay_two(data):
    table = public("movielens-100k")
    pairs = set(zip(*(table[name].to_pylist() for name in ("movie", "movie_number")), strict=True))
    assert len(pairs) == len({name for name, _ in pairs}) == 1682
    assert ("Chasing Amy (1997) [268]", 268) in pairs and ("Toy Story (1995)", 1) in pairs
    assert len(set(data.title)) < 1682
