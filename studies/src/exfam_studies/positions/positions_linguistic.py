"""What encoders know of language by content and by position: Figure A2 of locality and symmetry.

Ten probing tasks, made of WikiText-2, SNLI and the English Web Treebank, on the vectors of every
layer of masked language models of our own (see `masked_lms`), with attention as it is ("both"), by
content alone and by position alone. BShift and SOMO are of WikiText-2's validation and test parts,
since an encoder may have learned the training part by heart; the pairs of words that SOMO goes by
are counted in that. "shuffled-accuracy" is what the same classifier finds in labels of chance;
between "low" and "high" 95 % of accuracies are when test sentences are redrawn.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import Any

from exfam.language.networks.masked_lm import ATTENTION_TERMS
from exfam.language.tokens import located_lines
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row, interval_settings
from exfam_studies.common.token_streams import CORPORA, read_texts
from exfam_studies.positions.linguistic import of_parses, of_sentences, scoring
from exfam_studies.positions.linguistic.balancing import ProbingTask
from exfam_studies.positions.masked_lms import fit_masked_lm, row_parameters
from exfam_studies.positions.parses import PARTS, english_parses
from exfam_studies.positions.snli import snli_pairs

TASKS = (
    "SentLen", "WC", "BShift", "TreeDepth", "TopConst", "Tense", "SubjNum", "ObjNum", "SOMO",
    "CoordInv",
)  # fmt: skip
PLOTTED = {"accuracy": "layer"}
PROBED = ("learned", "tupe")
# Examples of a class, where there are many more than intervals of two points need.
PER_CLASS = {"SentLen": 700}
_FAST_PER_CLASS, _FAST_LINES = 12, 1500
# Words of parsed sentences. There are few: longer ones count, too, than in WikiText (5 to 28).
LENGTHS = range(5, 51)
# Words that WikiText has cut: 1 @,@ 000 and red @-@ tipped.
_JOINT = re.compile(" @([,.-])@ ")
_ENDS = (".", "?", "!")

_Read = Callable[[], dict[str, ProbingTask]]
parameters = row_parameters


def run(options: Options) -> list[Row]:
    """Probe for the wanted tasks."""
    wanted = [name for name in TASKS if options.wants(name)]
    sizes = dict.fromkeys(wanted, _FAST_PER_CLASS) if options.fast else PER_CLASS
    # Words of WC need all of the text to be frequent enough.
    n_lines = _FAST_LINES if options.fast and "WC" not in wanted else None
    read = cache(partial(linguistic_tasks, only=wanted, per_class=sizes, n_lines=n_lines))
    jobs = [Job("words and lengths", partial(_cheap_rows, read))]
    jobs += [
        Job(f"{encoding} {term}", partial(_model_rows, encoding, term, read, options))
        for encoding in PROBED
        for term in ATTENTION_TERMS
    ]
    return gather(jobs)


def _cheap_rows(read: _Read) -> list[Row]:
    rows = []
    for task in read().values():
        rows += [
            Row(task=task.name, model="examples", metric=f"count-{part}", value=float(size))
            for part, size in task.sizes.items()
        ]
        rows += _rows(task, "length", {}, scoring.length_alone)
        rows += _rows(task, "words", {}, scoring.hashed_words)
        share = scoring.majority_share(task)
        rows.append(Row(task=task.name, model="majority", metric="accuracy", value=share))
    return rows


def _model_rows(encoding: str, term: str, read: _Read, options: Options) -> list[Row]:
    model = fit_masked_lm("small", encoding, seed=0, options=options)
    encoder = model.encoder(term=term)
    rows = []
    for task in read().values():
        for layer in range(1, len(model.model_.layers) + 1):
            vectors = partial(encoder.vectors, layer=layer)
            rows += _rows(task, f"{encoding}-{term}", {"layer": layer}, vectors)
    return [replace(row, n_seeds=1) for row in rows]


def _rows(
    task: ProbingTask, model: str, settings: dict[str, Any], encoder: scoring.SentenceEncoder
) -> list[Row]:
    score = scoring.probe_task(encoder, task)
    row = Row(task=task.name, model=model, settings=settings, metric="shuffled-accuracy")
    accuracy = replace(
        row,
        settings={**settings, **interval_settings(score.accuracy)},
        metric="accuracy",
        value=score.accuracy.mean,
        validation=score.validation,
        n_configurations=len(scoring.PENALTIES),
    )
    return [accuracy, replace(row, value=score.shuffled.mean)]


def linguistic_tasks(
    *, only: Collection[str], per_class: Mapping[str, int], n_lines: int | None = None
) -> dict[str, ProbingTask]:
    """Some of the ten tasks, by their names.

    `per_class`: task -> examples of each class in all parts; the others have as many as there are
    `n_lines`: the first lines of each part of WikiText-2 alone, for smoke runs
    """
    parses = list(chain.from_iterable(map(english_parses, PARTS)))
    texts = read_texts(CORPORA["wikitext-2"], n_lines=n_lines)
    train, *held_out = ([words for _, words in located_lines(own)] for own in texts.given.values())
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
    counts, kinds = of_sentences.count_bigrams(train), of_sentences.kinds_of_words(parses)
    makers: dict[str, Callable[..., ProbingTask]] = {
        "SentLen": partial(of_sentences.sentence_length_task, everything),
        # Fewer words than SentEval's 1000, and more frequent ones: each needs enough sentences.
        "WC": partial(of_sentences.word_content_task, everything, n_words=100, skip=1000, least=30),
        "BShift": partial(of_sentences.bigram_shift_task, unseen),
        "TreeDepth": partial(of_parses.tree_depth_task, trees, premises),
        "TopConst": partial(of_parses.top_constituents_task, trees, premises),
        **{name: partial(of_parses.feature_task, name, some) for name in of_parses.FEATURES},
        "SOMO": partial(of_sentences.odd_word_task, unseen, counts=counts, kinds=kinds),
        "CoordInv": partial(of_parses.coordination_inversion_task, some),
    }
    return {name: makers[name](per_class=per_class.get(name)) for name in TASKS if name in only}


def wikitext_sentences(
    lines: Iterable[Sequence[str]], *, least: int = 5, most: int = 28
) -> Iterator[tuple[str, ...]]:
    """Whole sentences of WikiText, whose lines are paragraphs of words; headings are left out.

    A sentence ends with a full stop, question mark or exclamation mark that stands as a word; it
    begins with a capital letter or a digit, has no "<unk>", and its brackets and quotation marks
    are closed. Cut words are joined. `least` and `most` count punctuation.
    """
    for line in lines:
        if line and line[0] != "=":
            for words in _cut(line):
                joined = tuple(_JOINT.sub(r"\1", " ".join(words)).split(" "))
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


def _is_whole(words: Sequence[str]) -> bool:
    inside = [word for word in words if word != '"'] or [""]
    begins = inside[0][:1]
    closed = words.count("(") == words.count(")") and words.count("[") == words.count("]")
    return (
        (begins.isupper() or begins.isdigit())
        and inside[-1] in _ENDS
        and closed
        and words.count('"') % 2 == 0
        and not any("<unk>" in word for word in words)
    )
