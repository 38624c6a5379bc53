"""Vocabularies of pieces of words."""

import sys

import pytest

pytest.importorskip("tokenizers", reason="tokenizers (extra hf) is not installed")

from exfam.checks import DataError, ExfamError
from exfam.reading.text.subwords import SPECIAL, SUBWORDS, Subwords, learn_subwords

LINES = [
    "the quick brown fox jumps over the lazy dog",
    "the dogs jumped",
    "Überall <unk> foxes",
] * 5
KINDS = pytest.mark.parametrize("kind", sorted(SUBWORDS))


@KINDS
def test_the_same_text_gives_the_same_pieces_which_put_together_are_its_words(monkeypatch, kind):
    subwords, again = (learn_subwords(LINES, kind=kind, size=300) for _ in range(2))
    assert subwords.text == again.text
    assert subwords.labels[: len(SPECIAL)].tolist() == list(SPECIAL)
    assert len(subwords) <= 300 and len(subwords) == len(set(subwords.labels))
    text, given = subwords.encode(["the <unk> lazy fox", ["the", "<unk>", "lazy", "fox"]])
    assert text.codes.tolist() == given.codes.tolist()
    assert text.words.tolist() == given.words.tolist()
    words = [""] * 4
    for piece, word in zip(subwords.labels[text.codes], text.words, strict=True):
        words[word] += piece.removeprefix("##").replace("\u0120", "")
    assert words == ["the", "[UNK]", "lazy", "fox"]
    model, given = subwords, [*LINES, ["the", "lazy", "fox"], *LINES]
    codes = [coded.codes.tolist() for coded in model.encode(given)]
    monkeypatch.setattr("exfam.reading.text.subwords._AT_ONCE", 2)
    assert [coded.codes.tolist() for coded in model.encode(given)] == codes


def test_whole_words_are_those_read_often_enough_most_frequent_first():
    lines = ["B. a a <unk> \u00e0", "a b. c c, dog's", "c c,"]
    own = learn_subwords(lines, kind="word", min_count=2).labels[len(SPECIAL) :]
    assert own.tolist() == ["a", "b.", "c", "c,"]
    as_is = learn_subwords(lines, kind="word", min_count=1, lower=False).labels[len(SPECIAL) :]
    assert as_is.tolist() == ["a", "c", "c,", "B.", "b.", "dog's", "\u00e0"]
    few = learn_subwords(lines, kind="word", size=len(SPECIAL) + 2).labels
    assert few.tolist() == [*SPECIAL, "a", "b."]


def test_characters_never_seen_are_unknown_but_bytes_are_not():
    pieces = learn_subwords(LINES, size=300)
    assert pieces.index["[UNK]"] in pieces.encode(["\u6f22"])[0].codes
    units = learn_subwords(LINES, kind="bpe", size=300)
    assert units.index["[UNK]"] not in units.encode(["\u6f22"])[0].codes
    as_is = learn_subwords(LINES, size=300, lower=False)
    assert "u" in pieces.index and "\u00dc" not in pieces.index and "\u00dc" in as_is.index


@pytest.mark.parametrize(
    ("lines", "changes", "message"),
    [
        (["<unk> <unk>", "  "], {}, "`lines` must have words to learn pieces of, got 2 lines"),
        (LINES, {"size": 20}, r"`size` must be at least \d+, for special pieces and all char"),
        (LINES, {"size": 200, "kind": "bpe"}, "`size` must be at least 261"),
        (LINES, {"size": 5, "kind": "word"}, "`size` must be at least 6, .* and a word, got 5"),
        (["a b", "c"], {"kind": "word"}, "`lines` must have a word that is read at least 2 times"),
        (LINES, {"kind": "word-piece"}, "`kind` must be one of .*Did you mean 'wordpiece'"),
    ],
)
def test_what_cannot_be_learned_is_refused(lines, changes, message):
    with pytest.raises(ExfamError, match=message):
        learn_subwords(lines, **changes)


def test_what_is_no_sentence_is_refused_by_its_index():
    subwords = learn_subwords(LINES, size=300)
    with pytest.raises(DataError, match="Sentence 1 must be a text or a list of words, got int"):
        subwords.encode(["a", 3])
    with pytest.raises(DataError, match="Sentence 7 must be .* got 'a b' as a word"):
        subwords.encode(["a", ["a b"]], numbers=[3, 7])
    with pytest.raises(DataError, match="`text` must be a tokenizer as JSON"):
        Subwords("{}")


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ExfamError, match=r"Install exfam\[hf\]"):
        learn_subwords(LINES)
    with pytest.raises(ExfamError, match=r"Install exfam\[hf\]"):
        Subwords("{}")
