"""Penn Treebank and WikiText-2, as language models are compared on them."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64

from exfam.checks import DataError
from exfam.language.tokens import Lexicon, encode_text, learn, lines_of
from exfam.reading.public_sets.published import find_file

# What files call the parts. The order of articles changes only the states carried between them.
PARTS = {"train": ("train", "train.permuted"), "validation": ("valid",), "test": ("test",)}


@dataclass(frozen=True)
class Corpus:
    """A public text, and what makes its files the published ones.

    `file`: the name of a part's file, with {} for that of the part
    `n_words`, `n_tokens`: kinds of tokens of the training part, tokens of each part
    """

    name: str
    file: str
    n_words: int
    n_tokens: tuple[int, int, int]
    how_to_get: str


@dataclass(frozen=True, eq=False)
class Texts:
    """The parts as an estimator takes them, and the same as codes."""

    given: dict[str, Any]
    lexicon: Lexicon
    codes: dict[str, Int64[np.ndarray, "_"]]


CORPORA = {
    "ptb": Corpus(
        "ptb",
        "ptb.{}.txt",
        n_words=10_000,
        n_tokens=(929_589, 73_760, 82_430),
        how_to_get="Penn Treebank as Mikolov prepared it: ptb.train.txt, ptb.valid.txt and "
        "ptb.test.txt of http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz.",
    ),
    "wikitext-2": Corpus(
        "wikitext-2",
        "wiki.{}.tokens",
        n_words=33_278,
        n_tokens=(2_088_628, 217_646, 245_569),
        how_to_get="WikiText-2 (not raw): wiki.train.tokens, wiki.valid.tokens and "
        "wiki.test.tokens of https://www.salesforce.com/products/einstein/ai-research/"
        "the-wikitext-dependency-language-modeling-dataset.",
    ),
}


def read_texts(corpus: Corpus, *, n_lines: int | None = None) -> Texts:
    """The texts of a corpus, or the first lines of each part.

    Raises DataError for missing files and for texts that are not the published ones.
    """
    given: dict[str, Any] = {part: corpus_path(corpus, part) for part in PARTS}
    if n_lines is not None:
        for part, path in given.items():
            given[part] = [words for _, words in itertools.islice(lines_of(path), n_lines)]
    lexicon, train = learn(given["train"], name="train")
    codes = {"train": train}
    codes |= {p: encode_text(given[p], lexicon, name=p) for p in ("validation", "test")}
    n_tokens = tuple(len(codes[part]) for part in PARTS)
    if n_lines is None and (len(lexicon), n_tokens) != (corpus.n_words, corpus.n_tokens):
        raise DataError(
            f"`{corpus.name}` must be the published text of {corpus.n_words} words and "
            f"{corpus.n_tokens} tokens (train, validation, test), got {len(lexicon)} and "
            f"{n_tokens}. {corpus.how_to_get}"
        )
    return Texts(given, lexicon, codes)


def corpus_path(corpus: Corpus, part: str) -> Any:
    """Where a part of a corpus is: in the folder that EXFAM_DATA names or the user's cache."""
    files = [f"lm/{corpus.file.format(name)}" for name in PARTS[part]]
    names = [f"{file}{end}" for file in files for end in (".bz2", "")]
    for path in map(find_file, names):
        if path is not None:
            return path
    raise DataError(
        f"`{corpus.name}` must have its {part} part in the folder that EXFAM_DATA names, got "
        f"none of {', '.join(names)} there. {corpus.how_to_get}"
    )
