"""Errors of a text name what is wrong and where."""

import bz2
import gzip
from pathlib import Path

import numpy as np
import pytest

from exfam.checks import DataError, ExfamError
from exfam.reading.text import Vocabulary, prepare_text
from exfam.reading.text.corpus import Position, SentenceSource, find_source
from exfam.reading.text.numbering import Pace
from exfam.reading.text.word_table import PIECE
from words.text_cases import LINES, prepared

GOOD = "the cat\nsat on é\n".encode() * 3
LONG = "x" * (PIECE + 1)
ABA = ["a b a", "b c a"]
KNOWN, SPACED = Vocabulary.counted({"x": 4, "y": 2}), Vocabulary.counted({"x": 4, "new york": 2})


@pytest.mark.parametrize(("size", "packed"), [(1, "txt"), (1 << 20, "bz2")])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"a \xe9t\xe9 b", r"encoded in UTF-8, got byte 0xe9 at byte 56 \(line 7\) of .*bad\."),
        (b"a \xe3\x80", r"encoded in UTF-8, got byte 0xe3 at byte 56 \(line 7\) of .*bad\."),
        (b"a b\0c", r"must be text, got a NUL at byte 57 \(line 7\) of .*bad\..*binary.*UTF-16"),
    ],
)
def test_bytes_that_are_no_text(tmp_path, size, packed, bad, message):
    path = tmp_path / f"bad.{packed}"
    path.write_bytes({"bz2": bz2.compress, "txt": bytes}[packed](GOOD + bad))
    with pytest.raises(DataError, match=message):
        prepared(path, tmp_path / "a" / "b", pace=Pace(piece=size))
    assert [path.name for path in (tmp_path / "a").iterdir()] == [], "nothing is left of it"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("size", [3, 1 << 20])
def test_files_of_other_encodings_are_read_as_the_same_in_utf8(tmp_path, encoding, size):
    text = GOOD.decode()
    plain, own = tmp_path / "plain.txt", tmp_path / "own.txt.gz"
    plain.write_bytes(GOOD)
    own.write_bytes(gzip.compress(text.encode(encoding)))
    pieces = [
        b"".join(piece.text for piece in find_source(path, encoding=name).pieces(start=at, size=9))
        for path, name in ((plain, None), (own, encoding))
        for at in (Position(), Position(offset=size if size < len(GOOD) else len(GOOD)))
    ]
    assert pieces[:2] == pieces[2:] and pieces[0].decode() == text
    words = prepare_text(own, min_count=1, encoding=encoding).vocabulary
    assert "é" in words.words
    with pytest.raises(DataError, match="`encoding` must be that of the text, got 'ascii' for .*o"):
        prepare_text(own, min_count=1, encoding="ascii")
    with pytest.raises(ExfamError, match="`encoding` must be the name of an encoding that Python"):
        prepare_text(own, encoding="klingon")


@pytest.mark.parametrize("kind", ["gz", "bz2"])
def test_a_packed_file_that_is_not_whole(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    data = {"gz": gzip, "bz2": bz2}[kind].compress(GOOD * 50)
    middle = len(data) // 2
    changed = data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]
    for damaged in (data[:-9], changed, GOOD):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=rf"must be of whole files .* got .*a\.{kind}: "):
            prepare_text(path)


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(GOOD)
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(DataError, match="must be readable, got .*a.txt' without the permissi"):
        prepare_text(path)


BROKEN = [
    ("missing.txt", {}, "must name a file, .* got '.*missing.txt', which is not there. Text it"),
    ("*.txt", {}, r"must name a file, a folder or a pattern, got '.*\*.txt', which is not"),
    ("", {}, "must name a file, .* got an empty name. The working"),
    ("empty", {}, "got '.*empty', a folder without files"),
    ("prepared", {}, "got a prepared text: '.*prepared'. Open it: open_text"),
    ("https://x.org/a.txt", {}, "must be on this machine, got 'https://x.org/a.txt'. Download"),
    ("a\0b", {}, "must name a file"),
    (["a.txt", "b.txt"], {}, "got 'b.txt', which is not there"),
    ([Path("a.txt"), 3], {}, r"hold paths alone after a path, got 3 \(int\)"),
    (b"a b", {}, "a path, a folder.* got bytes"),
    ({"text": ["a b"]}, {}, "a path, a folder.* got dict. Pass its column of texts"),
    ([" ", "\n\t"], {}, "must have words, got white space alone, or nothing"),
    ("blank.gz", {}, "must have words, got white space alone, or nothing"),
    ("long.txt", {}, rf"of less than {PIECE} bytes, got .*byte 6 \(line 2\)"),
    (["日本 é"], {"cleaning": "wikifil"}, "must have words"),
    (ABA, {}, "`min_count` must leave words, got 5, where .*, 'a', was read 3 times"),
    (ABA, {"min_count": 1, "max_words": 1}, "two words or more after .* got 'a' alone: there is"),
    (ABA, {"vocabulary": KNOWN, "max_words": 2}, "words of the vocabulary, got none of its 2 amo"),
    (ABA, {"vocabulary": SPACED}, "`vocabulary` must hold words without white space, go"),
    (ABA, {"min_count": 1, "folder": "a" * 300}, "`folder` must be a path of names of at most"),
    (ABA, {"min_count": 0}, "`min_count` must be a whole number >= 1, got 0"),
    (ABA, {"max_words": 0}, "`max_words` must be None or a whole number >= 1, got 0"),
    (ABA, {"max_distinct": -1}, "`max_distinct` must be a whole number >= 1, got -1"),
    (ABA, {"sentences": "dots"}, "`sentences` must be one of 'lines', 'none', got 'dots'"),
    (ABA, {"cleaning": "html"}, "`cleaning` must be one of None, 'wikifil', got 'html'"),
]


@pytest.mark.parametrize(("source", "options", "message"), BROKEN)
def test_what_is_no_text_is_refused(tmp_path, monkeypatch, source, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty" / "below").mkdir(parents=True)
    (tmp_path / "empty" / ".hidden").write_text("a b")
    (tmp_path / "blank.gz").write_bytes(gzip.compress(b"\n \n"))
    (tmp_path / "long.txt").write_text("a b\nc " + LONG * 2)
    prepare_text(LINES, min_count=1, folder=tmp_path / "prepared")
    if source == "*.txt":
        (tmp_path / "long.txt").unlink()
    else:
        (tmp_path / "a.txt").write_bytes(GOOD)
    with pytest.raises(ExfamError, match=message):
        prepare_text(source, **options)


def test_a_disk_that_fills_up_is_named_with_the_remedy(tmp_path, monkeypatch, full_disk):
    monkeypatch.setattr("exfam.reading.text.prepare.write_tokens", full_disk)
    with pytest.raises(DataError, match="got .*/kept: No space left on device. Free some"):
        prepare_text(["a b a b"], folder=tmp_path / "kept", min_count=1)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (7, "each a text or a list of words, got int at sentence 3"),
        (np.array("a"), "got ndarray at sentence 3"),
        (["a", 4], r"words that are text, got 4 \(int\) in sentence 3"),
        (["new york", "b"], "without white space that are not empty, got 2 that .* 3 in sent"),
        ("a \0", "must hold text, got a NUL in sentence 3"),
        (["\udfff"], r"Unicode text, got '\\udfff' alone, half of a character, in sentence 3"),
        ([LONG], f"words of at most {PIECE} bytes, got one of {PIECE + 1} in sentence 3"),
    ],
)
@pytest.mark.parametrize("others", [LINES[:2], [["the", "cat"], ["é"]]], ids=["text", "lists"])
def test_the_bad_sentence_is_named(bad, message, others):
    source = [*others, bad, *others]
    for size in (1, 1 << 20):
        with pytest.raises(DataError, match=message):
            list(SentenceSource(iter(source)).pieces(start=Position(), size=size))
