"""Small packed files that hold very much are refused by every reader, before memory is short."""

import bz2
import gzip
import tracemalloc

import numpy as np
import pytest

from exfam import DataError, read
from exfam.language.tokens import learn
from exfam.reading import streams as packed
from exfam.reading.text import dump_lines, prepare_text
from exfam.vectors.files import StoredVectors, read_vectors
from exfam.vectors.files.tensors import write_tensors

LIMIT = 1 << 16


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch):
    monkeypatch.setattr(packed, "UNPACKED_ANYWAY", LIMIT)


def pack(path, content):
    path.write_bytes((bz2 if path.suffix == ".bz2" else gzip).compress(content))
    return path


def groups_of(path):
    return read(path, group="user", item="movie", duplicates="keep")


BOMBS = {
    "rows.csv.gz": (groups_of, b"user,movie\n", b"a,b\n"),
    "header.csv.gz": (groups_of, b"user,", b"a"),
    "rows.jsonl.gz": (groups_of, b"", b'{"user": "a", "movie": "b"}\n'),
    "lines.txt.gz": (prepare_text, b"", b"a cat sat\n"),
    "lines.txt.bz2": (prepare_text, b"", b"a cat sat\n"),
    "lines.gz": (lambda path: learn(path, name="X"), b"", b"a cat sat\n"),
    "dump.xml.gz": (lambda path: list(dump_lines(path)), b"<mediawiki>\n", b"<text >cat\n"),
    "glove.txt.gz": (read_vectors, b"", b"cat 1 2\n"),
    "one-line-of-words.txt.gz": (read_vectors, b"1000000 2\n", b"a"),
    "word2vec.bin.gz": (read_vectors, b"1000000 2\n", b"cat " + np.ones(2, "<f4").tobytes()),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_unpacks_to_a_hundred_times_its_size_is_refused(tmp_path, name):
    reader, start, repeated = BOMBS[name]
    path = pack(tmp_path / name, start + repeated * ((4 << 20) // len(repeated)))
    with pytest.raises(DataError, match=r"must unpack to [\d,]+ bytes at most .* Unpack the file"):
        reader(path)


def test_a_refused_file_costs_no_memory(tmp_path):
    path = pack(tmp_path / "vectors.txt.gz", b"1000000 2\n" + b"a" * (256 << 20))
    tracemalloc.start()
    with pytest.raises(DataError, match="must unpack to"):
        read_vectors(path)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()
    path = tmp_path / "vectors.safetensors.gz"
    write_tensors(path, StoredVectors(("cat",), np.zeros((1, 1 << 20), np.float32)))
    with pytest.raises(DataError, match="`path` must unpack to"):
        read_vectors(path)


@pytest.mark.parametrize("ending", ["gz", "bz2"])
def test_files_below_the_limit_are_read_whole(tmp_path, ending):
    words = [f"w{number}" for number in range(5000)]
    path = pack(tmp_path / f"a.txt.{ending}", " ".join(words).encode())
    assert set(prepare_text(path, min_count=1).vocabulary.words) == set(words)


LONG = 17 << 20  # letters, more than a line may have


@pytest.mark.parametrize(
    ("reader", "name", "content", "match"),
    [
        (groups_of, "a.csv", b"user," + b"a" * LONG, "more than 16,777,216 letters.* in the heade"),
        (groups_of, "a.csv", b"user,movie\n1," + b"a" * LONG, "more than 16,777,216 letters"),
        (groups_of, "a.jsonl", b"a" * LONG, "lines that can be read, got a line of more than"),
        (groups_of, "a.jsonl", b'{"user": ' + b"[" * 100_000, "must have values of few levels, go"),
        (read_vectors, "a.txt", b"2 2\n" + b"a" * (40 << 20), "lines of 33,554,432 bytes at most"),
    ],
    ids=["header", "cell", "json line", "levels", "vectors"],
)
def test_endless_lines_are_refused(tmp_path, reader, name, content, match):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=match):
        reader(tmp_path / name)
