"""Files of vectors are read back as they were written; broken ones are refused by file and row."""

import gzip
import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from exfam.checks import DataError, ExfamError
from exfam.vectors.files import VECTOR_FORMATS, detect_format, read_vectors
from exfam.vectors.files.tensors import read_tensors
from words.vector_cases import WORDS, matrix, write

HARD = np.array([[0, -0.0, 1e-38], [1.1754944e-38, 3.4028235e38, -1e-45], [0.1, 1 / 3, 123456.79]])


ENDINGS = [".txt", ".bin", ".any", ".vec", ".safetensors"]
NAMED = list(zip(VECTOR_FORMATS, ENDINGS, strict=True))


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize(("format", "ending"), NAMED)
def test_every_format_gives_back_words_and_bits(tmp_path, format, ending, packed):
    path = tmp_path / f"vectors{ending}{packed}"
    rows = np.append(matrix()[:2, :3], HARD, axis=0).astype(np.float32)
    write(path, rows=rows, format=format)
    before = path.read_bytes()
    assert (before[:2] == b"\x1f\x8b") == (packed == ".gz")
    assert detect_format(path) == ("word2vec" if format == "fasttext" else format)
    # Written again, by the ending of the name where that says the format, the bytes are the same.
    write(path, rows=rows, format="glove" if format == "glove" else "auto")
    assert path.read_bytes() == before and os.listdir(tmp_path) == [path.name]
    for named in ("auto", format):
        words, read, *_ = read_vectors(path, format=named)
        assert words == WORDS
        np.testing.assert_array_equal(read.view(np.int32), rows.view(np.int32))
    for limit in (1, 5):
        words, read, *_ = read_vectors(path, limit=limit)
        assert words == WORDS[:limit]
        np.testing.assert_array_equal(read, rows[:limit])
    # Words with spaces live in safetensors alone.
    for word in ("", "new york", "a\n"):
        if format == "safetensors":
            write(path, ["a", word], rows[:2], format=format)
            assert read_vectors(path).words == ("a", word)
            continue
        with pytest.raises(DataError, match="`words` must not be empty or have .* row 1. Save"):
            write(path, ["a", word], rows[:2], format=format)
        assert path.read_bytes() == before and len(os.listdir(tmp_path)) == 1


def test_blocks_of_any_size_give_the_same(tmp_path, monkeypatch):
    rows = matrix(rows=300, dim=3)
    words = [f"w{i}" for i in range(300)]
    for format in ("glove", "word2vec-binary"):
        write(tmp_path / format, words, rows, format=format)
        whole = (tmp_path / format).read_bytes()
        with monkeypatch.context() as patch:
            for name, size in (("_BYTES", 17), ("_BINARY_BYTES", 17), ("_ENTRIES", 20)):
                patch.setattr(f"exfam.vectors.files.rows.{name}", size)
            patch.setattr("exfam.vectors.files.formats._ENTRIES", 20)
            np.testing.assert_array_equal(read_vectors(tmp_path / format).center, rows)
            write(tmp_path / "again", words, rows, format=format)
        assert (tmp_path / "again").read_bytes() == whole
        # Line by line is the same as all at once.
        monkeypatch.setattr("exfam.vectors.files.rows._parsed_fast", lambda *_: None)
        np.testing.assert_array_equal(read_vectors(tmp_path / format).center, rows)


@pytest.mark.parametrize(
    "text",
    [
        b"2 2\na 1 2\nb 3 4\n",
        b"2 2\na 1 2 \nb 3 4 \n",  # as word2vec and fastText write
        b"2 2\r\na 1 2\r\nb 3 4\r\n",
        b"2 2\na  1\t2\nb\t3 4\n\n\n",
        b"\xef\xbb\xbf2 2\na 1.0 2e0\nb 3. +4",
        b"\xef\xbb\xbfa 1 2\nb 3 4\n",
    ],
)
def test_forms_of_text_that_mean_the_same(tmp_path, text):
    (tmp_path / "v").write_bytes(text)
    words, read, *_ = read_vectors(tmp_path / "v")
    assert words == ("a", "b") and read.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("text", "options", "words", "rows"),
    [
        (b"the 1 2\n. . . 3 4\n", {}, ("the", ". . ."), [[1, 2], [3, 4]]),
        (b"caf\xe9 1 2\n", {"errors": "replace"}, ("caf\ufffd",), [[1, 2]]),
        (b"caf\xe9 1 2\n", {"errors": "ignore"}, ("caf",), [[1, 2]]),
        (b"3 1\na 1\na 3\nc 4\n", {"duplicates": "first"}, ("a", "c"), [[1], [4]]),
        (b"3 1\na 1\na 3\nc 4\n", {"duplicates": "first", "limit": 2}, ("a",), [[1]]),
    ],
)
def test_odd_words_are_read_as_wanted(tmp_path, text, options, words, rows):
    (tmp_path / "v").write_bytes(text)
    read = read_vectors(tmp_path / "v", **{"format": "auto", **options})
    assert read.words == words and read.center.tolist() == rows


ONES = np.ones(3, dtype="<f4").tobytes()

PACKED = gzip.compress(b"a 1 2\n" * 9, mtime=0)


def row(word, numbers=ONES):
    return word + b" " + numbers


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "got an empty file at .*vectors"),
        (b"3 2\na 1 2\nb 3 4\n", "as many rows as its header says, 3, got 2 in .*limit=2"),
        (b"1 2\na 1 2\nb 3 4\n", "as its header says, 1, got more in .*vectors. Pass limit=1"),
        (b"2 2\na 1 2\nb 3\n", r"a word and 2 numbers .* got 1 at line 3 of .* \(word 'b'\)"),
        (b"2 2\na 1 2\n\nb 3 4\n", r"got 0 at line 3 of .* \(a blank line\)"),
        (b"a 1 2\nb 3 four\n", r"numbers after a word, got 'four' at line 2 of .* \(word 'b'\)"),
        (b"a 1 2\nb nan 4\n", r"finite numbers, got nan or inf at line 2 of .* \(word 'b'\)"),
        (b"1 2\nb  1 1e39\n", r"finite numbers, got nan or inf at line 2 of .* \(word 'b'\)"),
        (b"a 1 2\nb 3 4\na 5 6\n", "got 'a' at line 1 of .* and again at line 3 of .*vectors"),
        (b"a 1 2\ncaf\xe9 3 4\n", r"words in UTF-8, got b'caf\\xe9' at line 2 of .*vectors"),
        (b"a 1 2\n 3 4\n", "a word in each row, got none at line 2 of .*vectors"),
        (b"0 2\n", "at least one word, got none in .*vectors"),
        (b"2 3\n" + row(b"a") + row(b"b")[:-1], "as its header says, got the end in row 1 of"),
        (b"1 3\n" + row(b"a") + row(b"b"), "must end after the 1 rows .* got more in .*limit=1"),
        (b"2 3\n" + row(b"a") + row(b"a"), "got 'a' at row 0 of .* and again at row 1 of"),
        (b"1 3\n" + row(b"\xe9"), r"words in UTF-8, got b'\\xe9' at row 0 of .*vectors"),
        (b"1 3\n" + row(b""), "a word in each row, got none at row 0 of"),
        (b"1 3\n" + row(b"a", ONES[:8] + b"\0\0\xc0\x7f"), r"got nan or inf at row 0 .*word 'a'"),
        (b"2 3\n" + row(b"a") + row(b"b" * 70_000), "got no word in row 1 of .*vectors"),
        (b"\x80\x04\x95 a pickle", "got a pickle, as gensim saves one, at .*save_word2vec_format"),
        (b"Once upon a time\n", "got one that begins with b'Once upon a time.n' at .*`format`"),
        (PACKED[:-5], "must be a whole gzip file, got a damaged one"),
    ],
)
def test_a_broken_file_is_refused(tmp_path, monkeypatch, content, message):
    monkeypatch.setattr("exfam.vectors.files.rows._BINARY_BYTES", 1 << 14)
    (tmp_path / "vectors").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_vectors(tmp_path / "vectors")


@pytest.mark.parametrize("format", ["word2vec", "word2vec-binary", "safetensors"])
def test_a_cut_at_any_byte_is_refused(tmp_path, format):
    write(tmp_path / "whole", format=format)
    whole = (tmp_path / "whole").read_bytes()
    # A text's last number may lose digits unnoticed.
    last = whole.rstrip().rfind(b" ") if format == "word2vec" else len(whole) - 2
    for stop in range(0, last, 13):
        (tmp_path / "cut").write_bytes(whole[:stop])
        with pytest.raises(DataError, match=r"`path` must .*cut"):
            read_vectors(tmp_path / "cut", format=format)


@pytest.mark.parametrize("line", [b"a 1 2", b"1 0", b"-1 3", b"1 9999999", b""])
def test_another_header_is_refused(tmp_path, line):
    (tmp_path / "v").write_bytes(line + b"\na 1 2\n")
    with pytest.raises(DataError, match=r"a line of two whole numbers, .* got b'.*glove"):
        read_vectors(tmp_path / "v", format="word2vec")


def test_other_choices_are_refused(tmp_path):
    for name, value in (("format", "csv"), ("errors", "loud"), ("duplicates", "last")):
        with pytest.raises(ExfamError, match=f"`{name}` must be one of .*, got '{value}'"):
            read_vectors(tmp_path, **{name: value})
    with pytest.raises(ExfamError, match="`limit` must be a number > 0, got 0"):
        read_vectors(tmp_path, limit=0)
    with pytest.raises(ExfamError, match=r"`path` must end in .txt, .vec, .* got '.*/v.csv'"):
        write(tmp_path / "v.csv")
    for missing, got in ((tmp_path / "none.txt", "no such file"), (tmp_path, "a folder")):
        with pytest.raises(DataError, match=f"got {got} at"):
            read_vectors(missing)


def tensors(**other):
    given = {
        "center": matrix(rows=2),
        "words": np.frombuffer(b"abc", dtype=np.uint8),
        "word_ends": np.array([1, 3]),
    }
    return {name: value for name, value in {**given, **other}.items() if value is not None}


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (tensors(words=None), "must hold the tensors center, words, .* got center, word_ends in"),
        (tensors(weight=matrix()), "got center, weight, word_ends, words in .*something else"),
        (tensors(signs=matrix()[0]), "must hold signs as int8 of 1 axes, got float32 of 1 in"),
        (tensors(word_ends=np.array([3, 1])), "ends of its words in rising order .* of 3 bytes"),
        (tensors(words=np.array([97, 255, 97], np.uint8)), "must have words in UTF-8, got others"),
        (tensors(word_ends=np.array([1, 2, 3])), "a row for each of 3 words .* got 2 x 4"),
        (tensors(center=np.full((2, 4), np.nan, np.float32)), "row 0 .word 'a'; 2 of 2 rows"),
        (tensors(words=np.array([97, 97], np.uint8), word_ends=np.array([1, 2])), "got 'a' at row"),
    ],
)
def test_other_tensors_are_refused(tmp_path, held, message):
    save_file(held, tmp_path / "v.safetensors")
    with pytest.raises(DataError, match=message):
        read_vectors(tmp_path / "v.safetensors")


def test_half_precision_is_read(tmp_path):
    save_file(tensors(center=matrix(rows=2).astype(np.float16)), tmp_path / "v.safetensors")
    assert read_tensors(tmp_path / "v.safetensors").center.dtype == np.float32


def test_a_line_without_an_end_is_refused(tmp_path, monkeypatch):
    for name, size in (("_BYTES", 8), ("_LONGEST_LINE", 20)):
        monkeypatch.setattr(f"exfam.vectors.files.rows.{name}", size)
    (tmp_path / "v.txt").write_text("1 2\na 1 " + "2" * 60)
    with pytest.raises(DataError, match="lines of 20 bytes at most, got a longer one in .*v.txt"):
        read_vectors(tmp_path / "v.txt", format="word2vec")
