"""Text becomes tokens: the words that Python cuts, each by the code of its frequency."""

import bz2
import gc
import gzip
import io
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exfam.reading.text import Progress, Vocabulary, prepare_text
from exfam.reading.text.numbering import Pace
from exfam.reading.text.text_options import DIGITS, wikifil
from words.text_cases import LINES, TEXT, prepared, sentences_of

WHITE = st.sampled_from("ab \n\t\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2003\u2028\u205f\u3000")
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")


def words_of(text):
    """Sentences of words as Python cuts them."""
    return [words for line in text.split("\n") if (words := line.split())]


def by_count(words):
    counts = Counter(words)
    return sorted(counts, key=lambda word: (-counts[word], word)), counts


@settings(max_examples=30)
@given(text=st.text(st.one_of(WHITE, LETTERS)), size=st.integers(1, 9))
def test_words_are_those_that_python_cuts(tmp_path_factory, text, size):
    text += "\nx y"  # two words at least
    file = tmp_path_factory.mktemp("texts") / "a.txt"
    file.write_bytes(text.encode())
    ours = prepared(file, file.with_name("prepared"), pace=Pace(piece=size))
    text = text.removeprefix("\ufeff")
    assert sentences_of(ours) == words_of(text)
    words, counts = by_count(text.split())
    assert list(ours.vocabulary.words) == words
    assert ours.vocabulary.counts.tolist() == [counts[word] for word in words]
    assert ours.n_tokens == ours.vocabulary.n_tokens == counts.total()


@pytest.mark.parametrize(("min_count", "max_words"), [(2, None), (1, 2)])
def test_rare_words_are_left_out(min_count, max_words):
    text = prepare_text(LINES, min_count=min_count, max_words=max_words)
    words, counts = by_count(TEXT.split())
    kept = [word for word in words if counts[word] >= min_count][:max_words]
    assert list(text.vocabulary.words) == kept and len(kept) < len(words)
    left = [[word for word in line if word in kept] for line in words_of(TEXT)]
    assert sentences_of(text) == [line for line in left if line]
    assert text.n_tokens == counts.total()


def test_tokens_without_a_folder_last_as_long_as_they_are_used(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    text = prepare_text(LINES, min_count=1)
    tokens = text.tokens[2:]
    del text
    gc.collect()
    assert len(list(tmp_path.iterdir())) == 1 and tokens.sum() > 0
    with pytest.raises(ValueError, match="read-only"):
        tokens[0] = 1
    del tokens
    gc.collect()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "source",
    [
        [tuple(LINES[0].split()), *LINES[1:]],
        [np.array(x.split()) for x in LINES],
        io.StringIO(TEXT),
    ],
    ids=["both", "arrays", "open file"],
)
def test_sentences(source):
    assert sentences_of(prepare_text(source, min_count=1)) == words_of(TEXT)


def test_files(tmp_path):
    data, folder = TEXT.encode(), tmp_path / "texts"
    (folder / "below").mkdir(parents=True)
    # A mark at the beginning is no part of a word, and no word runs into the next file.
    (folder / "a.txt").write_bytes(b"\xef\xbb\xbf" + data.rstrip())
    (folder / "b.txt.gz").write_bytes(gzip.compress(data) + gzip.compress(b"of two members"))
    (folder / "below" / "c.BZ2").write_bytes(bz2.compress(data))
    for name in (".hidden", "_not"):
        (folder / name).write_bytes(b"\0")
    whole = words_of(TEXT)
    alike = [whole, [*whole, ["of", "two", "members"]], whole]
    paths = [folder / name for name in ("a.txt", "b.txt.gz", "below/c.BZ2")]
    for path, expected in zip(paths, alike, strict=True):
        assert sentences_of(prepare_text(path, min_count=1)) == expected
    for source in (folder, str(folder), paths, [str(path) for path in paths], iter(paths)):
        assert sentences_of(prepare_text(source, min_count=1)) == sum(alike, [])
    assert sentences_of(prepare_text(f"{folder}/b*.gz", min_count=1)) == alike[1]
    # Sentences may end with the file alone.
    text = prepare_text(paths, min_count=1, sentences="none")
    assert sentences_of(text) == [sum(sentences, []) for sentences in alike]


def test_progress_is_reported(tmp_path):
    path, reports = tmp_path / "a.bz2", []
    path.write_bytes(bz2.compress(TEXT.encode()))
    prepare_text(path, min_count=1, progress=reports.append)
    total = path.stat().st_size
    assert [(report.done, report.total) for report in reports if report.stage == "reading"][-1] == (
        total,
        total,
    )
    assert reports[-1] == Progress("encoding", reports[-1].total, reports[-1].total, 23)


@settings(max_examples=60)
@given(text=st.text(st.one_of(st.sampled_from("aZ09 \n-"), WHITE, LETTERS)))
def test_wikifil_is_what_perl_does(text):
    expected = re.sub("[A-Z]", lambda match: match[0].lower(), text)
    for digit, word in enumerate(DIGITS):
        expected = expected.replace(str(digit), f" {word} ")
    assert wikifil(text.encode()) == re.sub("[^a-z\n]+", " ", expected).encode()


@given(text=st.text(LETTERS))
@settings(max_examples=40)
def test_lower_case_is_that_of_python(text):
    text += " ΟΔΟΣ İ ΣΑΣ"
    ours = prepare_text([text], min_count=1, lower=True, sentences="none")
    assert sentences_of(ours) == [text.lower().split()]


@pytest.mark.parametrize(("max_words", "new"), [(2, ""), (3, "c"), (None, "cd")])
def test_codes_stay_and_new_words_follow_up_to_the_cap(max_words, new):
    known = prepare_text(["b b b a a"], min_count=1).vocabulary
    options = {"min_count": 2, "max_words": max_words, "vocabulary": known}
    text = prepare_text(["c a d d c e c a b"], **options)
    assert text.vocabulary.words == ("b", "a", *new)
    assert text.vocabulary.counts.tolist() == [4, 4, 3, 2][: 2 + len(new)]
    assert sentences_of(text) == [[word for word in "caddccab" if word in "ab" + new]]
    assert (text.n_tokens, text.vocabulary.n_tokens) == (9, 14)


def test_frequent_words_survive_with_their_tokens(tmp_path):
    path, random = tmp_path / "a.txt", np.random.default_rng(0)
    drawn = random.choice([f"w{k}" for k in range(20)], 4000)
    pairs = zip(drawn[:3000], (f"r{k}" for k in range(3000)), strict=True)
    path.write_text(" ".join([*(word for pair in pairs for word in pair), *drawn[3000:]]))
    with pytest.warns(UserWarning, match=r"words read at most \d+ times were forgotten"):
        text = prepared(path, tmp_path / "b", max_distinct=200, min_count=50)
    whole = prepared(path, tmp_path / "c", max_distinct=10_000, min_count=50)
    assert text.forgotten > 0 == whole.forgotten
    assert sorted(text.vocabulary.words) == sorted(whole.vocabulary.words)
    assert len(whole.vocabulary) == 20
    lost = whole.vocabulary.counts.sum() - text.vocabulary.counts.sum()
    assert 0 <= lost <= 20 * text.forgotten * (text.forgotten + 1) / 2
    assert (text.tokens >= 0).sum() == text.vocabulary.counts.sum()
    known = Vocabulary.counted({"r0": 1, "r2999": 1, "never": 1})
    with pytest.warns(UserWarning, match="forgotten"):
        text = prepared(path, tmp_path / "d", max_distinct=100, min_count=50, known=known)
    assert text.vocabulary.words[:3] == known.words
    assert text.vocabulary.counts[:3].tolist() == [1, 2, 2]
