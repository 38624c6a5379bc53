"""Maps of words and items: where they are, what is near, and analogies are the library's."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from exfam import DataError, ExfamError, ItemKNN, Popularity, SkipGram, WordVectors
from exfam.explorer.planes import main_axes_plane, mirror_plane
from exfam.explorer.serve import Explorer
from exfam.explorer.views import explorer_views
from exfam.explorer.views.vectors import VectorsView
from exfam.vectors.spectra import main_plane
from explorer.explored import (
    WORDS,
    attributes_of_words,
    baskets,
    fetched,
    items_model,
    word_vectors,
)


@pytest.fixture(scope="module")
def words():
    return VectorsView(word_vectors(), attributes_of_words())


def scores(rows):
    return [(row["name"], pytest.approx(row["similarity"], abs=1e-6)) for row in rows]


def test_what_is_near_a_word_is_what_the_vectors_say(words):
    vectors = word_vectors()
    near = words.near({"code": 3})
    assert vectors.most_similar("bread", k=12) == scores(near["alike"])
    beside = vectors.most_similar(vectors["bread"], k=12, of="context")
    assert [tuple(own) for own in beside] == scores(near["beside"])
    context = vectors.matrix("context")[3]
    length = float(vectors.norms[3])
    assert near["own_cosine"] == pytest.approx(float(vectors["bread"] @ context) / length**2)
    # What a reflection turns counts against, the rest for.
    assert near["own_cosine"] == pytest.approx(1 - 2 * near["reflected_share"], abs=1e-6)


def test_analogies_are_those_of_the_vectors(words):
    answer = words.analogy({"a": 0, "b": 1, "c": 2})
    assert word_vectors().analogy("tea", "coffee", "milk", k=5) == scores(answer["answers"])
    assert [dot["name"] for dot in answer["given"]] == ["tea", "coffee", "milk"]


@pytest.mark.parametrize("options", [{}, {"attention": "softmax", "base": "none"}], ids=str)
def test_items_have_a_map_beside_their_baskets_and_are_near_as_the_model_says(options):
    items, view, *_ = explorer_views(items_model(**options), baskets())
    assert (items.name, view.name) == ("items", "vectors")
    own = view.model.similar_items("c", k=12)
    near = view.near({"code": 2})
    assert list(zip(own.labels[0], own.similarity[0], strict=True)) == scores(near["alike"])
    assert view.start()["by"] == own.by and view.start()["noun"] == "item"
    assert (near["own_cosine"] is None) == (not options)
    best = int(np.argmax(items.popularity))
    assert view.start()["items"][0]["code"] == best


def test_sparse_weights_of_items_are_drawn_as_dense_ones_are():
    model = ItemKNN(group="basket", item="item").fit(baskets())
    view = VectorsView(model)
    sparse = view.entries.center
    assert scipy.sparse.issparse(sparse) and not view.start()["has_analogies"]
    dense, own = main_axes_plane(sparse.toarray()), main_axes_plane(sparse)
    np.testing.assert_allclose(np.abs(own.center), np.abs(dense.center), atol=1e-6)
    assert own.share == pytest.approx(dense.share, abs=1e-6)
    np.testing.assert_array_equal(main_axes_plane(sparse).center, own.center)
    near = view.near({"code": 2})
    similar = model.similar_items("c", k=12)
    assert list(zip(similar.labels[0], similar.similarity[0], strict=True)) == scores(near["alike"])
    with pytest.raises(ExfamError, match="`a` must be of a model with vectors of few columns"):
        view.analogy({"a": 0, "b": 1, "c": 2})


def test_the_plane_is_that_in_which_unit_vectors_vary_most():
    center = np.random.default_rng(1).normal(size=(50, 7)).astype(np.float32)
    plane, (points, share) = main_axes_plane(center), main_plane(center)
    np.testing.assert_allclose(np.abs(plane.center), np.abs(points), atol=1e-6)
    assert plane.share == pytest.approx(share, abs=1e-6) and plane.context is None
    flat = main_axes_plane(np.ones((4, 1), dtype=np.float32))
    assert (flat.center == 0).all() and flat.share == 1.0
    few = main_axes_plane(scipy.sparse.csr_array(np.eye(2)))
    assert few.center.shape == (2, 2) and few.share == pytest.approx(1.0)


def test_context_vectors_are_mirrored_where_the_reflected_half_points_upwards(words):
    vectors = word_vectors()
    plane = mirror_plane(vectors.center, vectors.signs < 0)
    assert plane.context == pytest.approx(plane.center * [1, -1]) and 0 < plane.share < 1
    # The very context vectors, projected: the mirror is no picture of one.
    mirrored = mirror_plane(np.ascontiguousarray(vectors.matrix("context")), vectors.signs < 0)
    assert np.abs(mirrored.center) == pytest.approx(np.abs(plane.context), abs=1e-6)
    dots = words.window({"plane": "mirror", "layer": "both"})["dots"]
    for dot in dots:
        assert dot["context_at"] == pytest.approx([dot["at"][0], -dot["at"][1]])
    assert list(words.start()["planes"]) == ["main", "mirror"]
    untied = WordVectors(WORDS, vectors.center, vectors.matrix("context"))
    assert list(VectorsView(untied).start()["planes"]) == ["main"]


def test_a_window_holds_what_is_in_it_and_dots_and_shades_are_all_of_it():
    random = np.random.default_rng(0)
    names = tuple(f"word {k}" for k in range(900))
    view = VectorsView(WordVectors(names, random.normal(size=(900, 3)).astype(np.float32)))
    every = view.window({})
    assert every["n_inside"] == 900 == len(every["dots"]) + sum(n for *_, n in every["density"])
    assert [dot["code"] for dot in every["dots"]] == list(range(400))
    low, high = np.array([-0.2, 0.0]), np.array([0.3, 0.5])
    part = view.window({"low": low.tolist(), "high": high.tolist(), "also": [899]})
    points = view._plane("main").center
    inside = np.flatnonzero(((points >= low) & (points <= high)).all(1))
    assert part["n_inside"] == len(inside) > 20
    assert {dot["code"] for dot in part["dots"]} == {*inside.tolist()[:400], 899}
    for dot in part["dots"]:
        assert dot["at"] == points[dot["code"]].tolist() and dot["context_at"] is None


def test_words_are_found_by_any_part_those_that_begin_with_it_first(words):
    found = words.find({"text": " TEA"})
    assert [one["name"] for one in found["items"]] == ["tea", "tea cake", "green tea"]
    assert found["n_found"] == 3
    assert words.find({"codes": [8]})["items"] == [{"code": 8, "name": "salt"}]
    assert words.find({"text": ""})["items"] == words.start()["items"]


def test_colors_are_the_commonest_label_or_the_mean_of_numbers(words):
    assert words.start()["attributes"] == ["kind", "price"]
    window = words.window({"color": "kind"})
    kinds = [window["labels"][int(code)] for code in window["colors"]]
    assert kinds == attributes_of_words()["kind"][:10] and window["labels"] == ["food", "drink"]
    window = words.window({"color": "price"})
    assert window["colors"] == [k + 5.0 for k in range(10)] and window["range"] == [5.0, 14.0]
    assert words.near({"code": 2})["attributes"] == {"kind": "drink", "price": 7.0}


def test_attributes_come_from_files_and_rare_labels_share_a_color(tmp_path):
    frame = pd.DataFrame({"number": range(12), "item": list("abcdefghabcd")})
    frame["shelf"] = [*"AABBCCDE", "A", None, "B", "B"]
    frame.to_csv(tmp_path / "items.csv", index=False)
    view = explorer_views(items_model(), attributes=tmp_path / "items.csv")[1]
    window = view.window({"color": "shelf"})
    at = {dot["name"]: color for dot, color in zip(window["dots"], window["colors"], strict=True)}
    # Of b one row is missing; of c and d a tie has the first label.
    assert {name: window["labels"][int(k)] for name, k in at.items()} == dict(
        zip("abcdefgh", "AABBCCDE", strict=True)
    )
    many = {"item": list("abcdefgh") * 2, "own": [f"label {k}" for k in range(16)]}
    view.color(many | {"of": [0, 1] * 8, "none": [None] * 16})
    assert view.start()["attributes"] == ["own", "of"]
    nine = VectorsView(word_vectors(), {"word": list(WORDS), "own": list(WORDS)})
    assert sorted(nine.window({"color": "own"})["colors"]) == [*range(8), 8, 8]
    assert sum(nine.near({"code": k})["attributes"]["own"] is None for k in range(10)) == 2


def test_models_of_words_have_a_map_and_models_of_nothing_else_have_none():
    text = ["the cat sat on the mat", "the dog sat on the rug"] * 20
    model = SkipGram(dim=4, tie="linear", subsample=0.0, threads=1, epochs=1).fit(text)
    (view,) = explorer_views(model)
    near = view.near({"code": 1})
    own = model.vectors_.most_similar(model.vectors_.center[1], of="context", k=12)
    assert [tuple(one) for one in own] == scores(near["beside"])
    assert not VectorsView.shows(Popularity(group="basket", item="item").fit(baskets()), None)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"plane": "other"}, "`plane` must be one of 'main', 'mirror', got 'other'"),
        ({"layer": "other"}, "`layer` must be one of 'center', 'context', 'both', got"),
        ({"color": "x"}, "`color` must be one of 'kind', 'price', got 'x'"),
        ({"low": [0, 1]}, "`high` must be two numbers, got None"),
        ({"low": [0, True], "high": [1, 1]}, "`low` must be two numbers, got"),
        ({"also": [10]}, r"`also` must be a list of codes, 0 \.\. 9"),
    ],
)
def test_questions_about_other_things_are_refused(words, question, message):
    with pytest.raises(ExfamError, match=message):
        words.window(question)


def test_what_cannot_be_colored_or_compared_is_refused():
    with pytest.raises(DataError, match="`attributes` must have a column that names what is on"):
        VectorsView(word_vectors(), {"name": ["x", "y"], "kind": ["a", "b"]})
    popularity = Popularity(group="basket", item="item").fit(baskets())
    with pytest.raises(ExfamError, match="`attributes` must be left out for Popularity"):
        explorer_views(popularity, attributes=attributes_of_words())


def test_the_command_opens_files_of_vectors_and_colors_by_a_table(tmp_path, monkeypatch, capsys):
    from exfam.cli import main

    word_vectors().save(tmp_path / "words.safetensors")
    pd.DataFrame(attributes_of_words()).to_csv(tmp_path / "kinds.csv", index=False)
    seen = []

    def ended(page):
        seen.append(fetched(page.address + "start")[1])
        page.stop()

    monkeypatch.setattr(Explorer, "wait", ended)
    words, kinds = str(tmp_path / "words.safetensors"), str(tmp_path / "kinds.csv")
    for more in ([kinds], ["--attributes", kinds]):
        assert main(["explore", words, *more, "--browser", "no"]) == 0
    assert [start["attributes"] for start in seen] == [["kind", "price"]] * 2
    capsys.readouterr()
    assert main(["explore"]) == main(["explore", words, "--encoder", words]) == 2
    complaints = capsys.readouterr().err
    assert "`MODEL` must be given, or `--encoder` in its place, got none" in complaints
    assert "beside an encoder" in complaints
