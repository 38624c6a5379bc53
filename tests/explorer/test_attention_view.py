"""Attention weights on the page are the library's, by layer, head and term."""

from dataclasses import replace

import numpy as np
import pytest

from encoder_cases import save_tiny_bert
from exfam import ExfamError
from exfam.explorer.attended import RowAttention
from exfam.explorer.views import explorer_views
from exfam.explorer.views.attention import AttentionView
from exfam.positions import identical_word_probe, position_scores, renormalized
from explorer.explored import (
    items_model,
    language_model,
    plain_table,
    ratings_model,
    rows_of_cars,
    table_model,
    word_vectors,
)

SENTENCE = "a dog runs home with a man"
WITH_ATTENTION = [{}, {"order": "rows"}, {"direction": "causal"}]


@pytest.fixture(scope="module", params=WITH_ATTENTION, ids=str)
def items(request):
    return AttentionView(items_model(attention="softmax", base="none", **request.param))


@pytest.fixture(scope="module")
def sentences():
    return AttentionView(language_model())


def head(view, layer, number, **question):
    answer = view.attention({**question, "layer": layer, "head": number})
    return np.array(answer["weights"]), answer


def explained(model, names, part="items"):
    frame = {"basket": [0] * len(names), "item": list(names)}
    (own,) = model.explain(frame)
    return own.weights[part], own


def test_weights_of_a_basket_are_those_that_explain_gives(items):
    weights, own = explained(items.model, "abf")
    for layer, number in ((1, 1), (2, 2)):
        shown, answer = head(items, layer, number, items=[0, 1, 5])
        assert shown[:3] == pytest.approx(weights[layer - 1, number - 1], abs=1e-6)
        assert answer["rows"] == [*own.centers, "(a further one)"]
        assert answer["columns"] == own.columns and answer["n_own"] == 3
    mean, answer = head(items, 0, 0, items=[0, 1, 5])
    assert mean[:3] == pytest.approx(weights.mean((0, 1)), abs=1e-6)
    assert mean.sum(1) == pytest.approx(1.0, abs=1e-6)
    assert np.array(answer["beside"]).shape == (answer["n_layers"], answer["n_heads"])


def test_a_further_item_attends_as_the_hidden_last_item_does(items):
    weights, _ = explained(items.model, "abf")
    further, _ = head(items, 0, 0, items=[0, 1])
    without = np.delete(weights.mean((0, 1))[2], 2)
    assert further[-1] == pytest.approx(without, abs=1e-6)
    alone, answer = head(items, 1, 1, items=[])
    assert alone == pytest.approx(1.0) and answer["columns"] == ["(nothing)"]


def test_words_and_positions_are_parted_as_the_model_parts_them():
    model = items_model(attention="softmax", base="none", order="rows")
    view = AttentionView(model)
    assert view.start()["terms"] == ["both", "contextual", "positional"]
    frame = {"basket": [0] * 4, "item": list("abfc")}
    for term in ("both", "contextual"):
        own = model.position_attention(frame, length=4, term=term)
        shown, answer = head(view, 2, 1, items=[0, 1, 5, 2], term=term)
        among = shown[:4, :4] / shown[:4, :4].sum(1, keepdims=True)
        assert among == pytest.approx(own.weights[1, 0].numpy(), abs=1e-6)
        scores = own.scores(by="head")
        assert np.array(answer["locality"]) == pytest.approx(scores.locality.numpy(), abs=1e-6)
        assert np.array(answer["symmetry"]) == pytest.approx(scores.symmetry.numpy(), abs=1e-6)
    shown, answer = head(view, 1, 2, items=[0, 1, 5, 2], term="positional")
    assert shown == pytest.approx(own.positional[1].numpy(), abs=1e-6)
    assert answer["columns"] == list("abfc") and answer["beside"] is None
    assert view.attention({"items": [], "term": "positional"})["weights"] == []


def test_sets_have_no_positions_to_speak_of():
    view = AttentionView(items_model(attention="softmax", base="none"))
    assert view.start()["terms"] == ["both"] and not view.start()["is_ordered"]
    assert view.attention({"items": [0, 1, 2]})["locality"] is None


def test_parts_of_a_model_have_weights_of_their_own():
    model = ratings_model(attention="softmax")
    view = AttentionView(model)
    assert view.start()["parts"] == ["items", "values"]
    frame = {"user": [0] * 3, "movie": list("abf"), "stars": [1.0, 4.0, 2.0]}
    (own,) = model.explain(frame)
    for part in ("items", "values"):
        shown, answer = head(view, 1, 2, items=[0, 1, 5], values=[1.0, 4.0, 2.0], part=part)
        assert shown[:3] == pytest.approx(own.weights[part][0, 1], abs=1e-6)
        assert ("(a further one)" in answer["rows"]) == (part == "items")


@pytest.mark.parametrize("term", ["both", "contextual", "positional"])
def test_weights_of_a_row_are_those_between_its_columns(term):
    model = plain_table()
    view = explorer_views(model, rows_of_cars())[1]
    assert isinstance(view.source, RowAttention)
    row = {name: [value] for name, value in rows_of_cars().iloc[7].items()}
    both = "both" if term == "positional" else term
    own = model.position_attention(row, term=both)
    wanted = own.positional[None] if term == "positional" else own.weights
    shown, answer = head(view, 1, 1, index=7, term=term)
    assert shown == pytest.approx(wanted[0, 0].numpy(), abs=1e-6)
    assert answer["rows"] == answer["columns"] == list(model.schema_.names)
    cells = {name: value[0] for name, value in row.items()}
    cells = {name: getattr(value, "item", lambda v=value: v)() for name, value in cells.items()}
    typed, _ = head(view, 1, 1, cells=cells, term=term)
    assert typed == pytest.approx(shown, abs=1e-6)
    empty, _ = head(view, 1, 1, cells={**cells, "mpg": {"low": 1, "high": 2}})
    assert empty[0, 1] == 0


@pytest.mark.parametrize("term", ["both", "contextual", "positional"])
def test_weights_of_a_sentence_are_the_encoders(sentences, term):
    encoder = replace(language_model().encoder(), term=term)
    (own,) = encoder.word_attention([SENTENCE])
    shown, answer = head(sentences, 2, 3, text=f" {SENTENCE} ", term=term)
    assert shown[:, :7] == pytest.approx(own[1, 2].numpy(), abs=1e-6)
    assert shown.sum(1) == pytest.approx(1.0)
    assert answer["columns"] == [*SENTENCE.split(), "(special tokens)"]
    assert np.array(answer["beside"])[1, 2] == pytest.approx(shown[:, 7].mean(), abs=1e-6)
    scores = position_scores(renormalized(own.double()))
    assert np.array(answer["locality"]) == pytest.approx(scores.locality.numpy(), abs=1e-6)


def test_positions_of_an_encoder_are_probed(sentences):
    own = identical_word_probe(language_model().encoder(), words=8, length=32).head_scores()
    found = sentences.probe({})
    assert (found["n_words"], found["length"]) == (8, 32)
    assert np.array(found["locality"]) == pytest.approx(own.locality.numpy(), abs=1e-6)
    assert np.array(found["symmetry"]) == pytest.approx(own.symmetry.numpy(), abs=1e-6)


def test_encoders_of_transformers_are_shown_as_well(tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed")
    from exfam.language.pretrained import PretrainedEncoder

    save_tiny_bert(tmp_path, ["a", "cat", "dog", "runs", "sat"])
    encoder = PretrainedEncoder.load(tmp_path)
    view, vectors = explorer_views(encoder)
    assert view.start()["terms"] == ["both"] and vectors.name == "vectors"
    words = list(encoder.probe_words())[:4]
    (own,) = encoder.word_attention([words])
    shown, _ = head(view, 1, 2, text=" ".join(words))
    assert shown[:, :4] == pytest.approx(own[0, 1].numpy(), abs=1e-6)
    assert view.probe({})["locality"]


def test_what_is_kept_is_bounded_and_right_again(sentences):
    first = sentences.attention({"text": "a dog"})
    for k in range(12):
        sentences.attention({"text": "a " * (k + 1)})
    assert len(sentences._kept) <= 8 and sentences.attention({"text": "a dog"}) == first
    assert sentences.attention({"text": ""})["rows"] == []


def test_models_without_attention_have_no_such_view_and_one_that_is_off_says_so():
    for model in (items_model(), table_model(), word_vectors()):
        assert "attention" not in [view.name for view in explorer_views(model)]
    off = items_model(attention="softmax")
    assert off.gain_.gate == 0 and AttentionView(off).start()["is_off"]
    assert not AttentionView(items_model(attention="softmax", base="none")).start()["is_off"]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"text": "a " * 201}, "`text` must have at most 200 words, got 201"),
        (
            {"text": "a", "term": "other"},
            "`term` must be one of 'both', 'contextual', 'positional'",
        ),
        ({"text": "a", "part": "items"}, "`part` must be one of 'words', got 'items'"),
        ({"text": "a", "layer": -1}, r"`layer` must be a whole number, 0 \.\. 10000, got -1"),
    ],
)
def test_questions_of_other_shapes_are_refused(sentences, question, message):
    with pytest.raises(ExfamError, match=message):
        sentences.attention(question)


def test_what_a_model_cannot_be_asked_is_refused(items):
    with pytest.raises(ExfamError, match="`probe` must be of an encoder of sentences, got another"):
        items.probe({})
    with pytest.raises(ExfamError, match="`values` must be a list of 2 numbers or None, got"):
        items.attention({"items": [0, 1], "values": [1.0]})
    with pytest.raises(ExfamError, match="`values` must be left out for a model without one"):
        items.attention({"items": [0], "values": [1.0]})
