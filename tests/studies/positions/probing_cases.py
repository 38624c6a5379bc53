"""Small tasks, parses and texts for the tests of probing tasks."""

from collections import Counter

import numpy as np

from exfam_studies.positions.parses import DependencyParse


def made_text(n, *, seed=0, words=40):
    """So many sentences, all unlike, of 5 to 28 words that a first and a last one enclose."""
    random = np.random.default_rng(seed)
    names = np.array([f"{a}{b}" for a in "bcdfghkm" for b in "aeiou"])[:words]
    lengths = random.integers(3, 27, n)
    return [("Then", *names[random.integers(0, words, entry)].tolist(), ".") for entry in lengths]


def parsed(text):
    """A parse of "word/TAG/Feature=Value/relation/head ...", heads from 1 and 0 for the root."""
    words, tags, features, relations, heads = zip(
        *(entry.rsplit("/", 4) for entry in text.split()), strict=True
    )
    features = [{} if f == "_" else dict(v.split("=") for v in f.split("|")) for f in features]
    return DependencyParse(words, tags, tuple(features), np.array(heads, dtype=int) - 1, relations)


def parse(heads, relations=None):
    """Words w0, w1, ... with heads from 0; relations are by offset if none are given."""
    n = len(heads)
    offsets = [f"r{head - at}" if head >= 0 else "root" for at, head in enumerate(heads)]
    words, relations = tuple(f"w{at}" for at in range(n)), tuple(relations or offsets)
    return DependencyParse(words, ("X",) * n, ({},) * n, np.array(heads), relations)


def assert_sound(task):
    """Classes alike in each part; no sentence and no group in two parts."""
    seen_words, seen_groups = Counter(), Counter()
    for examples in task.parts.values():
        counts = Counter(example.label for example in examples)
        assert set(counts) == set(task.classes) and len(set(counts.values())) == 1
        seen_words.update({" ".join(example.words).lower() for example in examples})
        seen_groups.update({example.group for example in examples})
        assert len(examples) == len({example.words for example in examples})
    assert max(seen_words.values()) == 1 and max(seen_groups.values()) == 1


def everything(task):
    """The examples of all parts."""
    return [*task.train, *task.validation, *task.test]
