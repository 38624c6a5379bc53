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
CUTTING = pytest.mark.parametrize("kind", sorted(set(SUBWORDS) - {"word"}))


@KINDS
def test_the_same_text_gives_the_same_pieces(kind):
    first, again = (learn_subwords(LINES, kind=kind, size=300) for _ in range(2))
    assert first.text == again.text
    assert first.labels[: len(SPECIAL)].tolist() == list(SPECIAL)
    assert len(first) <= 300 and len(first) == len(set(first.labels))


@CUTTING
def test_pieces_put_together_are_the_words(kind):
    subwords = learn_subwords(LINES, kind=kind, size=300)
    (coded,) = subwords.encode([["quick", "dogs", "foxed", "xyz"]])
    words = ["", "", "", ""]
    for piece, word in zip(subwords.labels[coded.codes], coded.words, strict=True):
        words[word] += piece.removeprefix("##").replace("\u0120", "")
    assert words == ["quick", "dogs", "foxed", "xyz"]


@KINDS
def test_texts_and_lists_of_words_are_cut_alike(monkeypatch, kind):
    subwords = learn_subwords(LINES, kind=kind, size=300)
    text, words = subwords.encode(["the <unk> lazy fox", ["the", "<unk>", "lazy", "fox"]])
    assert text.codes.tolist() == words.codes.tolist() and len(text.codes) >= 4
    assert text.words.tolist() == words.words.tolist()
    assert (text.codes == subwords.index["[UNK]"]).sum() == 1
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


def test_words_that_are_not_known_whole_are_unknown():
    known = learn_subwords(LINES, kind="word")
    (coded,) = known.encode(["The dog dogs doggy \u00dcberall foxes"])
    assert known.labels[coded.codes].tolist() == [
        "the", "dog", "dogs", "[UNK]", "uberall", "foxes"
    ]  # fmt: skip
    assert coded.words.tolist() == list(range(6))


def test_replaced_words_are_nothing_to_learn_from():
    assert "unk" not in learn_subwords(["a <unk> fox"] * 9, size=60).index
    with pytest.raises(DataError, match="must have words to learn pieces of"):
        learn_subwords(["<unk> <unk>"])


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
        ([], {}, "`lines` must have words to learn pieces of, got 0 lines alone"),
        (["", "  "], {}, "got 2 lines alone"),
        (LINES, {"size": 20}, r"`size` must be at least \d+, for special pieces and all char"),
        (LINES, {"size": 200, "kind": "bpe"}, "`size` must be at least 261"),
        (LINES, {"size": 5, "kind": "word"}, "`size` must be at least 6, .* and a word, got 5"),
        (["a b", "c"], {"kind": "word"}, "`lines` must have a word that is read at least 2 times"),
        (LINES, {"min_count": 0}, "`min_count` must be an integer >= 1"),
        (LINES, {"size": 0}, "`size` must be an integer >= 1"),
        (LINES, {"kind": "word-piece"}, "`kind` must be one of .*Did you mean 'wordpiece'"),
    ],
)
def test_what_cannot_be_learned_is_refused(lines, changes, message):
    with pytest.raises(ExfamError, match=message):
        learn_subwords(lines, **changes)


def test_what_is_no_sentence_is_refused_by_its_place():
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
