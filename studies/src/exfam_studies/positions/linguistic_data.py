"""The ten linguistic probing tasks, made of WikiText-2, SNLI and the English Web Treebank.

SentLen and WC are made of all of WikiText-2. BShift and SOMO are made of its validation and test
parts, since an encoder may have learned the training part by heart, and would know a sentence that
was changed; the pairs of words that SOMO goes by are counted in the training part. The others need
parses, and are as small as the public ones: see the sizes and intervals.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np

from exfam.checks import check_choice
from exfam_studies.common.token_streams import CORPORA, Texts, read_texts
from exfam_studies.positions.english_parses import PARTS, english_parses
from exfam_studies.positions.linguistic import (
    ProbingTask,
    Sizes,
    bigram_shift_task,
    coordination_inversion_task,
    count_bigrams,
    kinds_of_words,
    object_number_task,
    odd_word_task,
    sentence_length_task,
    subject_number_task,
    tense_task,
    top_constituents_task,
    tree_depth_task,
    word_content_task,
)
from exfam_studies.positions.parses import DependencyParse, Tree
from exfam_studies.positions.snli import snli_pairs
from exfam_studies.positions.wikitext import wikitext_sentences

TASKS = (
    "SentLen", "WC", "BShift", "TreeDepth", "TopConst", "Tense", "SubjNum", "ObjNum", "SOMO",
    "CoordInv",
)  # fmt: skip
# Words of parsed sentences. There are few: longer ones count, too, than in WikiText (5 to 28).
LENGTHS = range(5, 51)


def linguistic_tasks(
    *,
    seed: int = 0,
    only: Collection[str] = TASKS,
    per_class: Mapping[str, int] | None = None,
    n_lines: int | None = None,
) -> dict[str, ProbingTask]:
    """The ten tasks, or some of them, by their names.

    Files are looked for in the folder that EXFAM_DATA names, then in the user's cache.

    `only`: which tasks, if not all
    `per_class`: task -> examples of each class in all parts; the others have as many as there are
    `n_lines`: the first lines of each part of WikiText-2 alone, for smoke runs: too few for WC,
        which is to be left out then (default None)
    Raises ExfamError for the name of another task; DataError where files are missing or sentences
    are fewer than asked for.

    >>> len(TASKS)
    10
    """
    asked = dict(per_class or {})
    for argument, names in (("only", only), ("per_class", asked)):
        for name in names:
            check_choice(argument, name, TASKS)
    parses = list(chain.from_iterable(map(english_parses, PARTS)))
    makers = _from_wikitext(parses, n_lines) | _from_constituents() | _from_dependencies(parses)
    return {
        name: makers[name](seed=seed, sizes=Sizes(per_class=asked.get(name)))
        for name in TASKS
        if name in only
    }


_Maker = Callable[..., ProbingTask]


def _from_wikitext(parses: Sequence[DependencyParse], n_lines: int | None) -> dict[str, _Maker]:
    texts = read_texts(CORPORA["wikitext-2"], n_lines=n_lines)
    train = _lines(texts, "train")
    unseen = [
        words
        for part in ("validation", "test")
        for words in wikitext_sentences(_lines(texts, part))
    ]
    everything = [*wikitext_sentences(train), *unseen]
    counts = count_bigrams(train)
    kinds = kinds_of_words(parses)
    return {
        "SentLen": partial(sentence_length_task, everything),
        # Fewer words than SentEval's 1000, and more frequent ones: each needs enough sentences.
        "WC": partial(word_content_task, everything, n_words=100, skip=1000, least=30),
        "BShift": partial(bigram_shift_task, unseen),
        "SOMO": partial(odd_word_task, unseen, counts=counts, kinds=kinds),
    }


def _lines(texts: Texts, part: str) -> list[list[str]]:
    codes = texts.codes[part]
    words = texts.lexicon.labels[codes].tolist()
    ends = np.flatnonzero(codes == texts.lexicon.line_end).tolist()
    begins = [0, *(end + 1 for end in ends[:-1])]
    return [words[first:end] for first, end in zip(begins, ends, strict=True)]


def _from_constituents() -> dict[str, _Maker]:
    """A premise and the hypotheses about it are of one group."""
    trees: list[Tree] = []
    premises: list[str] = []
    for pair in snli_pairs("parsed"):
        for tree in (pair.premise_parse, pair.hypothesis_parse):
            if tree is not None:
                trees.append(tree)
                premises.append(pair.premise)
    return {
        "TreeDepth": partial(tree_depth_task, trees, premises),
        "TopConst": partial(top_constituents_task, trees, premises),
    }


def _from_dependencies(all_parses: Sequence[DependencyParse]) -> dict[str, _Maker]:
    parses = [parse for parse in all_parses if len(parse) in LENGTHS]
    return {
        "Tense": partial(tense_task, parses),
        "SubjNum": partial(subject_number_task, parses),
        "ObjNum": partial(object_number_task, parses),
        "CoordInv": partial(coordination_inversion_task, parses),
    }
