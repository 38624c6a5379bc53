"""The ten linguistic probing tasks, made of WikiText-2, SNLI and the English Web Treebank.

BShift and SOMO are made of WikiText-2's validation and test parts, since an encoder may have
learned the training part by heart; the pairs of words that SOMO goes by are counted in that.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np

from exfam_studies.common.token_streams import CORPORA, Texts, read_texts
from exfam_studies.positions.linguistic.balancing import ProbingTask
from exfam_studies.positions.linguistic.of_parses import (
    coordination_inversion_task,
    object_number_task,
    subject_number_task,
    tense_task,
)
from exfam_studies.positions.linguistic.of_sentences import (
    bigram_shift_task,
    count_bigrams,
    kinds_of_words,
    odd_word_task,
    sentence_length_task,
    word_content_task,
)
from exfam_studies.positions.linguistic.of_trees import top_constituents_task, tree_depth_task
from exfam_studies.positions.parses import PARTS, english_parses
from exfam_studies.positions.snli import snli_pairs

TASKS = (
    "SentLen", "WC", "BShift", "TreeDepth", "TopConst", "Tense", "SubjNum", "ObjNum", "SOMO",
    "CoordInv",
)  # fmt: skip
# Words of parsed sentences. There are few: longer ones count, too, than in WikiText (5 to 28).
LENGTHS = range(5, 51)
# Words that WikiText has cut: 1 @,@ 000 and red @-@ tipped.
_JOINTS = {"@,@": ",", "@.@": ".", "@-@": "-"}
_ENDS = (".", "?", "!")


def linguistic_tasks(
    *, only: Collection[str], per_class: Mapping[str, int], n_lines: int | None = None
) -> dict[str, ProbingTask]:
    """Some of the ten tasks, by their names.

    `per_class`: task -> examples of each class in all parts; the others have as many as there are
    `n_lines`: the first lines of each part of WikiText-2 alone, for smoke runs: too few for WC
    """
    parses = list(chain.from_iterable(map(english_parses, PARTS)))
    texts = read_texts(CORPORA["wikitext-2"], n_lines=n_lines)
    train, *held_out = (_lines(texts, part) for part in ("train", "validation", "test"))
    unseen = [words for lines in held_out for words in wikitext_sentences(lines)]
    everything = [*wikitext_sentences(train), *unseen]
    # A premise and the hypotheses about it are of one group.
    pairs = [
        (tree, pair.premise)
        for pair in snli_pairs("parsed")
        for tree in (pair.premise_parse, pair.hypothesis_parse)
        if tree is not None
    ]
    trees, premises = [tree for tree, _ in pairs], [premise for _, premise in pairs]
    some = [parse for parse in parses if len(parse) in LENGTHS]
    counts, kinds = count_bigrams(train), kinds_of_words(parses)
    makers: dict[str, Callable[..., ProbingTask]] = {
        "SentLen": partial(sentence_length_task, everything),
        # Fewer words than SentEval's 1000, and more frequent ones: each needs enough sentences.
        "WC": partial(word_content_task, everything, n_words=100, skip=1000, least=30),
        "BShift": partial(bigram_shift_task, unseen),
        "TreeDepth": partial(tree_depth_task, trees, premises),
        "TopConst": partial(top_constituents_task, trees, premises),
        "Tense": partial(tense_task, some),
        "SubjNum": partial(subject_number_task, some),
        "ObjNum": partial(object_number_task, some),
        "SOMO": partial(odd_word_task, unseen, counts=counts, kinds=kinds),
        "CoordInv": partial(coordination_inversion_task, some),
    }
    return {name: makers[name](per_class=per_class.get(name)) for name in TASKS if name in only}


def _lines(texts: Texts, part: str) -> list[list[str]]:
    codes = texts.codes[part]
    words = texts.lexicon.labels[codes].tolist()
    ends = np.flatnonzero(codes == texts.lexicon.line_end).tolist()
    begins = [0, *(end + 1 for end in ends[:-1])]
    return [words[first:end] for first, end in zip(begins, ends, strict=True)]


def wikitext_sentences(
    lines: Iterable[Sequence[str]], *, least: int = 5, most: int = 28
) -> Iterator[tuple[str, ...]]:
    """Whole sentences of WikiText, whose lines are paragraphs of words; headings are left out.

    A sentence ends with a full stop, question mark or exclamation mark that stands as a word; it
    begins with a capital letter or a digit, has no "<unk>", and its brackets and quotation marks
    are closed. Cut words are joined.

    `least`, `most`: words of a sentence, punctuation included
    """
    for line in lines:
        if line and line[0] != "=":
            for words in _cut(line):
                joined = _joined(words)
                if least <= len(joined) <= most and _is_whole(joined):
                    yield joined


def _cut(line: Sequence[str]) -> Iterator[list[str]]:
    """The line's sentences; a quotation mark that closes one after its end belongs to it."""
    sentence: list[str] = []
    for index, word in enumerate(line):
        sentence.append(word)
        is_open = sentence.count('"') % 2 == 1
        closes = is_open and line[index + 1 : index + 2] == ['"']
        ended = len(sentence) > 1 and sentence[-2] in _ENDS
        if (word in _ENDS and not closes) or (word == '"' and not is_open and ended):
            yield sentence
            sentence = []


def _joined(words: Sequence[str]) -> tuple[str, ...]:
    joined: list[str] = []
    glue = ""
    for word in words:
        if word in _JOINTS and joined:
            glue = _JOINTS[word]
        elif glue:
            joined[-1] += glue + word
            glue = ""
        else:
            joined.append(word)
    return tuple(joined)


def _is_whole(words: Sequence[str]) -> bool:
    begins = next((word for word in words if word != '"'), "")
    ends = next((word for word in reversed(words) if word != '"'), "")
    closed = words.count("(") == words.count(")") and words.count("[") == words.count("]")
    return (
        (begins[:1].isupper() or begins[:1].isdigit())
        and ends in _ENDS
        and closed
        and words.count('"') % 2 == 0
        and not any("<unk>" in word for word in words)
    )
