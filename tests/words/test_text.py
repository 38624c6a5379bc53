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

CHARACTERS = st.one_of(
    st.sampled_from("ab \n\t\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2003\u2028\u205f\u3000")
)
TEXTS = st.text(
    st.one_of(CHARACTERS, st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
)


def words_of(text):
    """Sentences of words as Python cuts them."""
    return [words for line in text.split("\n") if (words := line.split())]


def by_count(words):
    counts = Counter(words)
    return sorted(counts, key=lambda word: (-counts[word], word)), counts


@settings(max_examples=30)
@given(text=TEXTS, size=st.integers(1, 9))
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


@pytest.mark.parametrize(("min_count", "max_words"), [(2, None), (3, None), (1, 2), (1, 5)])
def test_rare_words_are_left_out(min_count, max_words):
    text = prepare_text(LINES, min_count=min_count, max_words=max_words)
    words, counts = by_count(TEXT.split())
    kept = [word for word in words if counts[word] >= min_count][:max_words]
    assert list(text.vocabulary.words) == kept and len(kept) < len(words)
    left = [[word for word in line if word in kept] for line in words_of(TEXT)]
    assert sentences_of(text) == [line for line in left if line]
    assert text.n_tokens == counts.total()


def test_sentences_end_with_the_file_alone(tmp_path):
    paths = [tmp_path / name for name in ("a.txt", "b.txt")]
    # A mark at the beginning is no part of a word, and no word runs into the next file.
    for path, text in zip(paths, (TEXT, "the end"), strict=True):
        path.write_text(text, encoding="utf-8-sig")
    ours = prepare_text(paths, min_count=1, sentences="none")
    assert sentences_of(ours) == [TEXT.split(), ["the", "end"]]
    assert sentences_of(prepare_text(LINES, min_count=1, sentences="none")) == [TEXT.split()]


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
        LINES,
        [tuple(LINES[0].split()), *LINES[1:]],
        [np.array(line.split()) for line in LINES],
        io.StringIO(TEXT),
    ],
    ids=["texts", "both", "arrays", "open file"],
)
def test_sentences(source):
    assert sentences_of(prepare_text(source, min_count=1)) == words_of(TEXT)


def test_files(tmp_path):
    data, folder = TEXT.encode(), tmp_path / "texts"
    (folder / "below").mkdir(parents=True)
    (folder / "a.txt").write_bytes(data)
    (folder / "b.txt.gz").write_bytes(gzip.compress(data) + gzip.compress(b"of two members"))
    (folder / "below" / "c.BZ2").write_bytes(bz2.compress(data))
    for name in (".hidden", "_not"):
        (folder / name).write_bytes(b"\0")
    whole = words_of(TEXT)
    alike = [whole, [*whole, ["of", "two", "members"]], whole]
    paths = [folder / name for name in ("a.txt", "b.txt.gz", "below/c.BZ2")]
    for path, expected in zip(paths, alike, strict=True):
        assert sentences_of(prepare_text(path, min_count=1)) == expected
        with open(path, "rb") as file:
            assert file.read(1), "files are closed by then, and stay as they are"
    everything = [sentence for each in alike for sentence in each]
    for source in (folder, str(folder), paths, [str(path) for path in paths], iter(paths)):
        assert sentences_of(prepare_text(source, min_count=1)) == everything
    assert sentences_of(prepare_text(f"{folder}/b*.gz", min_count=1)) == alike[1]


def test_progress_is_reported(tmp_path):
    path, reports = tmp_path / "a.bz2", []
    path.write_bytes(bz2.compress(TEXT.encode()))
    prepare_text(path, min_count=1, progress=reports.append)
    total = path.stat().st_size
    assert reports[0].stage == "reading" and reports[0].total == total
    assert reports[-1] == Progress("encoding", reports[-1].total, reports[-1].total, 23)
    assert [each.done for each in reports if each.stage == "reading"][-1] == total
    reports.clear()
    prepare_text(iter(LINES), min_count=1, progress=reports.append)
    assert (reports[0].done, reports[0].total) == (len(LINES), None)


@settings(max_examples=60)
@given(
    text=st.text(
        st.one_of(st.sampled_from("aZ09 \n-"), CHARACTERS, st.characters(exclude_categories=["Cs"]))
    )
)
def test_wikifil_is_what_perl_does(text):
    expected = re.sub("[A-Z]", lambda match: match[0].lower(), text)
    for digit, word in enumerate(DIGITS):
        expected = expected.replace(str(digit), f" {word} ")
    assert wikifil(text.encode()) == re.sub("[^a-z\n]+", " ", expected).encode()


@pytest.mark.parametrize("sentences", ["lines", "none"])
def test_wikifil_of_pieces(tmp_path, sentences):
    path = tmp_path / "a.txt"
    path.write_text("L'Été 1984:\n\n3 cats & a dog")
    text = prepared(
        path, tmp_path / "b", cleaning="wikifil", sentences=sentences, pace=Pace(piece=1)
    )
    lines = words_of("l t one nine eight four\nthree cats a dog")
    assert sentences_of(text) == (lines if sentences == "lines" else [sum(lines, [])])


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
@settings(max_examples=40)
def test_lower_case_is_that_of_python(text):
    text += " ΟΔΟΣ İ ΣΑΣ"
    ours = prepare_text([text], min_count=1, lower=True, sentences="none")
    assert sentences_of(ours) == [text.lower().split()]


def test_codes_stay_and_new_words_follow():
    known = prepare_text(["b b b a a"], min_count=1).vocabulary
    text = prepare_text(["c a d d c e c a b"], min_count=2, vocabulary=known)
    assert text.vocabulary.words == ("b", "a", "c", "d")
    assert text.vocabulary.counts.tolist() == [4, 4, 3, 2]
    assert sentences_of(text) == words_of("c a d d c c a b")
    assert (text.n_tokens, text.vocabulary.n_tokens) == (9, 14)


@pytest.mark.parametrize(("max_words", "new"), [(2, ()), (3, ("c",)), (None, ("c", "d"))])
def test_all_words_count_towards_the_cap(max_words, new):
    known = Vocabulary.counted({"a": 5, "b": 1})
    text = prepare_text(["c a d c"], min_count=1, max_words=max_words, vocabulary=known)
    assert text.vocabulary.words == ("a", "b", *new)
    assert text.n_tokens == 4 and 0 in text.tokens


def texts():
    random = np.random.default_rng(0)
    frequent = [f"w{k}" for k in range(20)]
    drawn = random.choice(frequent, 4000)
    rare = [f"r{k}" for k in range(3000)]
    words = [word for pair in zip(drawn[:3000], rare, strict=True) for word in pair]
    return " ".join([*words, *drawn[3000:]])


def test_frequent_words_survive_with_their_tokens(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(texts())
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
