"""Requests of one group: what a model keeps for them changes no answer, in any thread."""

import copy
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from torch import nn

from estimator_cases import COLUMNS, WITH_ITEMS, fitted_on, make, random_weights, ratings
from exfam import ExfamError, Groups
from exfam.columns.columns import Columns
from exfam.columns.label_index import IndexedVocabulary, LabelIndex
from exfam.columns.parts import FrameColumns, Part
from exfam.columns.suspects import warn_of_twins
from exfam.efa import baskets, requests
from exfam.efa.inputs import read_group_inputs
from exfam.efa.requests import requests_of
from exfam.efa.similar import _largest

FRAME = ratings(least=2)
LABELS = np.array(["a", "b", "c d", "e", "é"], dtype=object)
ODD_FRAMES = {
    "plain": {"user": [1, 1], "movie": ["a", "e"], "stars": [1.0, 2.0]},
    "unknown items": {"user": [1, 1], "movie": ["a", "x"], "stars": [1.0, 2.0]},
    "all unknown": {"user": [1, 1], "movie": ["y", "x"], "stars": [1.0, 2.0]},
    "twice": {"user": [1, 1], "movie": ["a", "a"], "stars": [1.0, 2.0]},
    "no rows": {"user": [], "movie": [], "stars": []},
    "values missing": {"user": [1, 1], "movie": ["a", "b"], "stars": [None, 2.0]},
    "an item missing": {"user": [1, 1], "movie": ["a", None], "stars": [1.0, 2.0]},
    "a column missing": {"user": [1, 1], "stars": [1.0, 2.0]},
    "text for numbers": {"user": [1, 1], "movie": ["a", "b"], "stars": ["1", "x"]},
    "numbers for text": {"user": [1, 1], "movie": [1, 2], "stars": [1.0, 2.0]},
    "columns of two lengths": {"user": [1, 1], "movie": ["a"], "stars": [1.0, 2.0]},
    "twins": {"user": [1, 1], "movie": ["a", " a"], "stars": [1.0, 2.0]},
    "twins of a label": {"user": [1], "movie": ["c  d"], "stars": [1.0]},
    "new twins": {"user": [1, 1], "movie": ["x", " x"], "stars": [1.0, 2.0]},
    "a letter of two forms": {"user": [1], "movie": ["e\u0301"], "stars": [1.0]},
}
ODD_GROUPS = {
    "its own labels": Groups(
        start=[0], stop=[2], item=[1, 0], vocabulary={"item": np.array(["e", "b"], dtype=object)}
    ),
    "labels equal": Groups(start=[0], stop=[2], item=[3, 0], vocabulary={"item": LABELS.copy()}),
    "labels the same": Groups(start=[0], stop=[2], item=[3, 0], vocabulary={"item": LABELS}),
    "no labels": Groups(start=[0], stop=[2], item=[3, 0]),
    "codes too large": Groups(start=[0], stop=[2], item=[9, 0]),
    "blanks": Groups(start=[0], stop=[3], item=[3, -1, 0], vocabulary={"item": LABELS.copy()}),
    "some unknown": Groups(
        start=[0], stop=[2], item=[2, 1], vocabulary={"item": np.array(["a", "x", "b"])}
    ),
    "empty": Groups(start=[0], stop=[0], item=[], vocabulary={"item": LABELS.copy()}),
    "a part of others": Groups(
        start=[0, 2], stop=[2, 4], item=[1, 0, 1, 1], vocabulary={"item": np.array(["e", "b"])}
    )[1],
}
ODD_LISTS = {
    "items": ["a", "b"],
    "no items": [],
    "unknown items": ["a", "x"],
    "an item twice": ["a", "a"],
    "counts": {"a": 2, "e": 1},
    "several": [["a"], ["b", "x"]],
    "numbers": [1, 2],
    "both": ["a", 1],
    "a missing one": ["a", None],
    "no text": ["a", "\ud800"],
}


def outcome(data, vocabulary, unknown):
    """What reading gives, or its error, and its warnings."""
    columns = FrameColumns(**COLUMNS) if isinstance(data, dict) else FrameColumns("user")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            read = read_group_inputs(data, columns, vocabulary=vocabulary, unknown=unknown)
        except ExfamError as error:
            return type(error).__name__, str(error)
    groups = read.groups
    held = {
        name: np.asarray(column).tolist()
        for name, column in vars(groups).items()
        if isinstance(column, np.ndarray)
    }
    values = {name: column.tolist() for name, column in groups.values.items()}
    kept = None if read.kept is None else read.kept.tolist()
    said = [str(warning.message) for warning in caught]
    return repr((held, values, groups.vocabulary["item"].tolist(), kept, read.n_rows)), said


@pytest.mark.parametrize("unknown", ["error", "ignore", "unk"])
@pytest.mark.parametrize("name", [*ODD_FRAMES, *ODD_GROUPS, *ODD_LISTS])
def test_an_index_changes_nothing_that_is_read(name, unknown):
    data = {**ODD_FRAMES, **ODD_GROUPS, **ODD_LISTS}[name]
    plain = outcome(data, {"item": LABELS}, unknown)
    indexed = IndexedVocabulary({"item": LABELS})
    for _ in range(2):
        assert outcome(data, indexed, unknown) == plain


@pytest.mark.parametrize(
    "flat",
    [["b", "a", "b"], ["é", "e\u0301", ""], [3, -1, 3], [2**63 - 1, -(2**63)], ["\U0001f35e", "z"]],
)
def test_plain_items_are_coded_as_a_column_of_them(flat):
    codes, names = baskets._plain_labels(flat)
    part = Part("item", "item")
    labels = Columns.of_frame({"item": flat}, [part]).labels(part)
    assert names.tolist() == sorted(set(flat)) and names.dtype == labels.names.dtype
    assert names[codes].tolist() == labels.names[labels.codes].tolist() == flat


@pytest.mark.parametrize(
    "flat", [["a", 1], [True, False], [1.0], [2**63], ["\ud800"], [np.str_("a")]]
)
def test_items_of_other_types_are_left_to_columns(flat):
    assert baskets._plain_labels(flat) is None


def test_twins_are_those_of_all_labels_together():
    random = np.random.default_rng(0)
    n_twins = 0
    for _ in range(60):
        words = ["".join(random.choice(list("ab  \u200b"), 3)) for _ in range(6)]
        known = np.array(list(dict.fromkeys(words[:3])), dtype=object)
        said = []
        for given in (known, LabelIndex(known)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                warn_of_twins("item", "movie", words[3:], given)
            said.append([str(warning.message) for warning in caught])
        assert said[0] == said[1]
        n_twins += len(said[0])
    assert 5 < n_twins < 55


def test_the_largest_numbers_are_those_of_sorting():
    numbers = np.random.default_rng(0).integers(0, 30, (2, 500)).astype(float)
    numbers[0, :400] = -np.inf
    expected = np.argsort(-numbers, axis=1, kind="stable")[:, :7]
    np.testing.assert_array_equal(_largest(numbers, 7), expected)
    numbers[1, 3] = np.nan
    assert _largest(numbers, 7).shape == (2, 7)


def answers(model, item="a"):
    """What a model says of one group, in all ways."""
    group = FRAME[FRAME["user"] == "u3"]
    found = {
        "recommend": model.recommend(group, k=3).probabilities,
        "score": model.score(group),
        "predict": model.predict(group).astype(object),
        "proba": model.predict_proba(group, of="item"),
        "complements": model.complements(item, k=3).strength,
        "substitutes": model.substitutes(item, k=3).strength,
    }
    if not model.schema_.values:
        found["list"] = model.recommend(["a", "b"], k=3).probabilities
    if hasattr(type(model), "explain") and type(model).__name__ == "EFA":
        found["explain"] = list(model.explain(group)[0].to_dict().values())[-1]
    if type(model).__name__ not in ("Popularity", "Marginal"):
        found["similar"] = model.similar_items(item, k=3).similarity
    return {name: np.asarray(answer).tolist() for name, answer in found.items()}


REQUESTED = {
    **{kind: {"direction": "causal"} for kind in (*WITH_ITEMS, "popularity", "item-knn", "ease")},
    "base alone": {"attention": "none", "value": None},
    "no base": {"base": "none", "support": "hard"},
}


def requested(name):
    kind = name if name in (*WITH_ITEMS, "popularity", "item-knn", "ease") else "efa"
    return fitted_on(FRAME, kind, **REQUESTED[name])


@pytest.mark.parametrize("name", REQUESTED)
def test_eight_threads_get_the_answers_of_one(name):
    alone = answers(requested(name))
    model = requested(name)
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda _: answers(model), range(16)))
    assert all(repr(answer) == repr(alone) for answer in together)


def test_requests_after_the_first_build_nothing(monkeypatch):
    model = requested("efa")
    first = answers(model)
    index = requests_of(model).vocabulary(model.vocabulary_).index("item")
    monkeypatch.setattr(LabelIndex, "__init__", None)
    monkeypatch.setattr(nn.Module, "eval", None)
    monkeypatch.setattr("exfam.efa.related.item_lifts", None)
    monkeypatch.setattr("exfam.efa.similar._unit", None)
    monkeypatch.setattr("exfam.efa.similar.Directions.of", None)
    assert repr(answers(model)) == repr(first)
    assert requests_of(model).vocabulary(model.vocabulary_).index("item") is index


@pytest.mark.parametrize("few", [0, 2_000])
def test_what_is_kept_follows_the_model(monkeypatch, few):
    monkeypatch.setattr("exfam.efa.related.FEW_ITEMS", few)
    model = fitted_on(FRAME, "latent-factor", value=None, noise=0.5)
    before = answers(model)
    random_weights(model, seed=1)
    after = answers(model)
    assert all(before[name] != after[name] for name in ("score", "complements", "similar"))
    assert repr(after) == repr(answers(copy.deepcopy(model)))
    model.members_[0].item_part.center.table.weight = nn.Parameter(
        model.members_[0].item_part.center.table.weight.detach() + 1
    )
    assert repr(answers(model)) == repr(answers(pickle.loads(pickle.dumps(model)))) != repr(after)


def test_further_groups_and_another_fit_begin_anew():
    model = fitted_on(FRAME, "efa", value=None, attention="none")
    before = answers(model)
    more = FRAME[["user", "movie"]].assign(user=FRAME["user"] + "!")
    after = answers(model.partial_fit(more))
    with pytest.raises(AttributeError, match="EFA was fitted without epochs, so no history_"):
        _ = model.history_
    assert before["complements"] != after["complements"]
    assert repr(after) == repr(answers(copy.deepcopy(model)))
    other = FRAME.assign(movie=FRAME["movie"].str.upper())
    assert model.fit(other).complements("A").items.tolist() != []
    assert model.recommend(["A"], k=2).items[0, 0].isupper()


def test_copies_share_nothing_that_could_be_wrong():
    model = fitted_on(FRAME, "latent-factor", value=None)
    expected = answers(model)
    renamed = copy.copy(model)
    renamed.vocabulary_ = {"item": np.array([label * 2 for label in model.vocabulary_["item"]])}
    assert set(renamed.recommend(["aa"], k=3).items[0]) <= set(renamed.vocabulary_["item"])
    assert repr(answers(model)) == repr(expected)
    assert not requests_of(copy.deepcopy(model))._results


def test_a_saved_model_has_none_of_it(tmp_path):
    model = requested("efa")
    model.save(tmp_path / "before")
    expected = answers(model)
    model.save(tmp_path / "after")
    sizes = [
        {path.name: path.stat().st_size for path in (tmp_path / name).iterdir()}
        for name in ("before", "after")
    ]
    assert sizes[0] == sizes[1]
    assert repr(answers(type(model).load(tmp_path / "after"))) == repr(expected)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr("exfam.efa.related.FEW_ITEMS", 0)
    model = fitted_on(FRAME, "latent-factor", value=None)
    labels = model.vocabulary_["item"].tolist()
    expected = {label: model.complements(label).strength.tolist() for label in labels}
    one = max(size for _, size in requests_of(model)._results.values())
    for most in (0, one, 2 * one):
        monkeypatch.setattr(requests, "MOST_BYTES", most)
        requests_of(model).drop()
        for label in (*labels, *labels):
            assert model.complements(label).strength.tolist() == expected[label]
            held = [size for _, size in requests_of(model)._results.values()]
            assert sum(held) <= most and len(held) == (min(most, one) > 0) + (most > one) * (
                len(held) == 2
            )


def test_one_group_is_read_alike_from_every_source():
    model = requested("efa")
    frame = pd.DataFrame({"user": ["u"] * 2, "movie": ["a", "b"], "stars": [np.nan] * 2})
    groups = Groups.from_frame(frame, **COLUMNS, order="rows", vocabulary=model.vocabulary_)
    sources = [["a", "b"], frame, frame.to_dict("list"), groups]
    found = [model.recommend(source, k=3).probabilities for source in sources[1:]]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    made = make("efa", value=None, direction="causal").fit(FRAME)
    by_list = made.recommend(sources[0], k=3).probabilities
    np.testing.assert_array_equal(by_list, made.recommend(frame, k=3).probabilities)
