"""Files of vectors are read back as they were written, by us and by gensim."""

import gzip
import os

import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam.vectors.files import VECTOR_FORMATS, detect_format, read_vectors
from exfam.vectors.files.text import text_blocks
from words.vector_cases import WORDS, matrix, write

ENDINGS = [("word2vec", ".txt"), ("word2vec-binary", ".bin"), ("fasttext", ".vec")]
ENDINGS += [("safetensors", ".safetensors")]
HARD = np.array([[0, -0.0, 1e-38], [1.1754944e-38, 3.4028235e38, -1e-45], [0.1, 1 / 3, 123456.79]])


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("format", VECTOR_FORMATS)
def test_every_format_gives_back_words_and_bits(tmp_path, format, packed):
    path = tmp_path / f"vectors.any{packed}"
    write(path, format=format)
    for named in ("auto", format):
        words, read, *_ = read_vectors(path, format=named)
        assert words == WORDS and read.dtype == np.float32
        np.testing.assert_array_equal(read, matrix())
    assert detect_format(path) == ("word2vec" if format == "fasttext" else format)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == (packed == ".gz")
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("format", VECTOR_FORMATS)
def test_the_hardest_numbers_keep_their_bits(tmp_path, format):
    hard = HARD.astype(np.float32)
    write(tmp_path / "v", ["a", "b", "c"], hard, format=format)
    read = read_vectors(tmp_path / "v").center
    np.testing.assert_array_equal(read.view(np.int32), hard.view(np.int32))


@pytest.mark.parametrize(("format", "ending"), ENDINGS)
def test_a_name_s_ending_chooses_the_format(tmp_path, format, ending):
    write(tmp_path / f"named{ending}.gz")
    write(tmp_path / f"given{ending}", format=format)
    with gzip.open(tmp_path / f"named{ending}.gz") as file:
        assert file.read() == (tmp_path / f"given{ending}").read_bytes()


def test_the_same_vectors_give_the_same_packed_bytes(tmp_path):
    for name in ("a.txt.gz", "b.txt.gz"):
        write(tmp_path / name)
    assert (tmp_path / "a.txt.gz").read_bytes() == (tmp_path / "b.txt.gz").read_bytes()


@pytest.mark.parametrize("format", VECTOR_FORMATS)
def test_the_first_rows_alone_can_be_read(tmp_path, format):
    write(tmp_path / "v", format=format)
    for limit in (1, 2, 5):
        words, read, *_ = read_vectors(tmp_path / "v", limit=limit)
        assert words == WORDS[:limit]
        np.testing.assert_array_equal(read, matrix()[:limit])


@pytest.mark.parametrize("binary", [False, True])
def test_gensim_reads_what_we_write_and_we_what_it_writes(tmp_path, binary):
    models = pytest.importorskip("gensim.models")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    write(ours, format="word2vec-binary" if binary else "word2vec")
    read = models.KeyedVectors.load_word2vec_format(ours, binary=binary)
    assert tuple(read.index_to_key) == WORDS
    np.testing.assert_array_equal(read.vectors, matrix())
    read.save_word2vec_format(theirs, binary=binary)
    assert read_vectors(theirs).words == WORDS
    np.testing.assert_array_equal(read_vectors(theirs).center, matrix())


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # which gensim leaves open
def test_gensim_reads_our_glove_files(tmp_path):
    models = pytest.importorskip("gensim.models")
    write(tmp_path / "v", format="glove")
    read = models.KeyedVectors.load_word2vec_format(tmp_path / "v", no_header=True)
    np.testing.assert_array_equal(read.vectors, matrix())


def test_blocks_of_any_size_give_the_same(tmp_path, monkeypatch):
    rows = matrix(rows=300, dim=3)
    words = [f"w{i}" for i in range(300)]
    for format in ("glove", "word2vec-binary"):
        write(tmp_path / format, words, rows, format=format)
        whole = (tmp_path / format).read_bytes()
        for module in ("text", "binary"):
            monkeypatch.setattr(f"exfam.vectors.files.{module}._BYTES", 17)
        for module in ("binary", "writing"):
            monkeypatch.setattr(f"exfam.vectors.files.{module}._ENTRIES", 20)
        np.testing.assert_array_equal(read_vectors(tmp_path / format).center, rows)
        write(tmp_path / "again", words, rows, format=format)
        assert (tmp_path / "again").read_bytes() == whole
        monkeypatch.undo()


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


def test_words_with_spaces_are_all_that_precedes_the_numbers(tmp_path):
    (tmp_path / "v").write_bytes(b"the 0.1 0.2\n. . . 0.3 0.4\nat name@domain.com 0.5 0.6\n")
    words, read, *_ = read_vectors(tmp_path / "v")
    assert words == ("the", ". . .", "at name@domain.com")
    np.testing.assert_array_equal(read, np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], np.float32))


def test_line_by_line_is_the_same_as_all_at_once(tmp_path, monkeypatch):
    write(tmp_path / "v", format="glove")
    with open(tmp_path / "v", "rb") as file:
        fast = list(text_blocks(file, name="v"))
    monkeypatch.setattr("exfam.vectors.files.text._parsed_fast", lambda *_: None)
    with open(tmp_path / "v", "rb") as file:
        slow = list(text_blocks(file, name="v"))
    assert fast[0].words == slow[0].words
    np.testing.assert_array_equal(fast[0].rows, slow[0].rows)


def test_words_with_spaces_live_in_safetensors(tmp_path):
    write(tmp_path / "v.safetensors", ["new york", "a\nb", ""], matrix(rows=3))
    assert read_vectors(tmp_path / "v.safetensors").words == ("new york", "a\nb", "")


def test_wrong_bytes_are_replaced_or_left_out_when_asked(tmp_path):
    (tmp_path / "v").write_bytes(b"caf\xe9 1 2\nthe 3 4\n")
    assert read_vectors(tmp_path / "v", errors="replace").words == ("caf\ufffd", "the")
    assert read_vectors(tmp_path / "v", errors="ignore").words == ("caf", "the")


def test_the_first_of_repeated_words_is_kept_when_asked(tmp_path):
    (tmp_path / "v").write_bytes(b"4 1\na 1\nb 2\na 3\nc 4\n")
    words, read, *_ = read_vectors(tmp_path / "v", duplicates="first")
    assert words == ("a", "b", "c") and read.ravel().tolist() == [1, 2, 4]
    words, read, *_ = read_vectors(tmp_path / "v", duplicates="first", limit=2)
    assert words == ("a", "b")


def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path):
    write(tmp_path / "v.txt")
    before = (tmp_path / "v.txt").read_bytes()
    with pytest.raises(ExfamError, match="`words` must not be empty or have spaces"):
        write(tmp_path / "v.txt", ["a", "b c"], matrix(rows=2))
    assert (tmp_path / "v.txt").read_bytes() == before and os.listdir(tmp_path) == ["v.txt"]
