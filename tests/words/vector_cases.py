"""Small vectors shared by tests of files, neighbors and evaluation."""

import numpy as np

from exfam.vectors import WordVectors
from exfam.vectors.files import StoredVectors, write_vectors

WORDS = ("the", "café", "2014", "über-word", "数")


def matrix(seed=0, *, rows=5, dim=4):
    return np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)


def some_vectors(seed=0, *, rows=60, dim=8, **more):
    words = tuple(f"w{row}" for row in range(rows))
    return WordVectors(words, matrix(seed, rows=rows, dim=dim), **more)


def write(path, words=WORDS, rows=None, **options):
    rows = matrix() if rows is None else rows
    write_vectors(path, StoredVectors(tuple(words), rows), **options)
