"""Commands about word vectors: `exfam neighbors`, `analogy`, `evaluate words`, `convert`."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from exfam.checks import ExfamError
from exfam.cli.errors import reworded
from exfam.cli.kinds import text, words
from exfam.cli.options import Form, Option, choice, count, output, switch
from exfam.cli.writable import check_output_file

_READING = (
    Option(
        "context", text, "a second file, which holds the context vectors of the same words",
        metavar="FILE",
    ),
    count("limit", "of a file, the first rows alone"),
    choice(
        "errors", ("strict", "replace", "ignore"),
        "of a file, what is done with words that are not UTF-8: strict, an error; replace and "
        "ignore, a mark or nothing in place of wrong bytes (default strict)",
    ),
    choice(
        "duplicates", ("error", "first"),
        "of a file, what is done with repeated words: error, or first, which keeps the first "
        "(default error)",
    ),
)  # fmt: skip
_VECTORS = Option(
    "vectors", text,
    "a saved model of words, or a file: word2vec text or binary, GloVe, fastText .vec, "
    "safetensors, also .gz",
    metavar="VECTORS", positional=True, required=True,
)  # fmt: skip
_OF = choice(
    "of",
    ("center", "context", "both"),
    "which vectors of the words: center, context, or both, their sum",
    default="center",
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_RULE = choice(
    "rule",
    ("3cosadd", "3cosmul"),
    "how an analogy is answered: 3cosadd, by sums of cosines, or 3cosmul, by products",
    default="3cosadd",
)
# Those of the library, whose list would load what help need not wait for.
_FORMATS = ("word2vec", "word2vec-binary", "glove", "fasttext", "safetensors")
_OF_NEIGHBORS = """Of each word the others with the largest cosine, nearest first. With --sum or
--minus, those nearest to the sum of all, less that of --minus; words may have weights then, as in
rake:0.5. A word is looked for as it is written. A file of millions of words takes a while to read:
--limit 200000 reads the first rows, as a rule those of the most frequent words."""
_OF_ANALOGIES = """A is to B as C is to the first word: `exfam analogy vectors/ man king woman`.
A, B and C are no answers. Several questions are three words each, one after the other."""
_OF_TESTS = """Pairs of words: Spearman's correlation of cosines with what people say. Analogies:
the share that is answered rightly, all and by kind. `covered` of all `n` have vectors for all their
words. `kept` counts the others too: at a cosine of 0, or as wrong answers; `skipped` leaves
them out.

The published sets are looked for in the folder wordsim of the one that EXFAM_DATA names, and
in the user's cache. --tests FOLDER takes all its .txt, .csv and .tsv files (also .gz): two words
and a number per line are pairs, four words per line are analogies."""
_OF_FORMATS = """word2vec is its text format. Without --format the ending of FILE decides: .bin
(word2vec's binary), .txt (its text), .vec (fastText) or .safetensors; with .gz after it the file is
packed. safetensors keeps center and context vectors, tied ones once; all others hold one vector per
word: the center's, or those of --of."""


def _opened(chosen: Any) -> Any:
    """The `WordVectors` of a saved model's folder, or of a file."""
    from exfam.vectors import WordVectors
    from exfam.vectors.saved import model_vectors

    named = {option.name: getattr(chosen, option.name) for option in _READING}
    given = {name: value for name, value in named.items() if value is not None}
    path = Path(chosen.vectors)
    with reworded({"`path`": "`VECTORS`"}):
        if not path.is_dir():
            return WordVectors.load(path, **given)
        if given:
            name, value = next(iter(given.items()))
            raise ExfamError(f"`--{name}` must be left out for a saved model, got {value!r}.")
        return WordVectors(*model_vectors(path))


def vectors_in_file(path: str) -> Any:
    """The `WordVectors` of a file that is named where a saved model may be."""
    from exfam.vectors import WordVectors

    with reworded({"`path`": "`MODEL`"}):
        return WordVectors.load(path)


def _neighbors(chosen: Any) -> dict[str, list[Any]]:
    vectors, options = _opened(chosen), {"k": chosen.k, "of": chosen.of}
    if chosen.sum or chosen.minus:
        plus, minus = (
            [_term(vectors, w) for w in own or ()] for own in (chosen.words, chosen.minus)
        )
        nearest = {_spoken(plus, minus): vectors.most_similar(plus, minus, **options)}
    else:
        for word in chosen.words:
            _check_alone(vectors, word)
        nearest = vectors.neighbors(list(dict.fromkeys(chosen.words)), **options)
    pairs = [(word, near) for word, all_near in nearest.items() for near in all_near]
    return {
        "word": [word for word, _ in pairs],
        "neighbor": [near.word for _, near in pairs],
        "cosine": [near.score for _, near in pairs],
    }


def _term(vectors: Any, word: str) -> tuple[str, float]:
    """A word with its weight, as in rake:0.5; a known word with a colon is that word."""
    name, _, weight = word.rpartition(":")
    if word in vectors or not name or not _NUMBER.fullmatch(weight):
        return word, 1.0
    if not float(weight) > 0:
        raise ExfamError(
            f"`WORD` must have a weight > 0, got {word!r}. Words to subtract are those of --minus."
        )
    return name, float(weight)


def _check_alone(vectors: Any, word: str) -> None:
    if _term(vectors, word)[0] != word:
        raise ExfamError(
            f"`WORD` must have no weight where each has its own neighbors, got {word!r}. Add --sum."
        )


def _spoken(plus: list[tuple[str, float]], minus: list[tuple[str, float]]) -> str:
    """The sum that is looked for, as one writes it."""
    plus_names, minus_names = (
        [name if weight == 1 else f"{weight:g} {name}" for name, weight in terms]
        for terms in (plus, minus)
    )
    return " - ".join([" + ".join(plus_names), *minus_names])


def _analogy(chosen: Any) -> dict[str, list[Any]]:
    given = [chosen.a, chosen.b, chosen.c, *(chosen.more or ())]
    if len(given) % 3:
        raise ExfamError(
            f"`A B C` must be three words, or several times three, got {len(given)}: "
            f"{' '.join(given)}."
        )
    vectors, options = _opened(chosen), {"rule": chosen.rule, "k": chosen.k, "of": chosen.of}
    questions = [given[start : start + 3] for start in range(0, len(given), 3)]
    answers = [
        (question, answer)
        for question in questions
        for answer in vectors.analogy(*question, **options)
    ]
    columns = {name: [getattr(near, name) for _, near in answers] for name in ("word", "score")}
    if len(questions) == 1:
        return columns
    asked = {name: [q[number] for q, _ in answers] for number, name in enumerate("abc")}
    return asked | columns


def _evaluate(chosen: Any) -> dict[str, list[Any]]:
    from exfam.cli.output import note
    from exfam.cli.word_tests import found_sets, sets_of

    vectors = _opened(chosen)
    if chosen.tests is None:
        sets, missing = found_sets()
        if missing:
            note(f"not found: {', '.join(missing)}")
    else:
        sets = sets_of(chosen.tests)
    rows = [row for test in sets for row in _rows(vectors, test, chosen)]
    return {name: [row[name] for row in rows] for name in rows[0]}


def _rows(vectors: Any, test: Any, chosen: Any) -> Iterator[dict[str, Any]]:
    """One for pairs; for analogies one for all, and one for each kind."""
    from exfam.reading.public_sets.word_pairs import WordPairs
    from exfam.vectors import evaluate_analogies, evaluate_similarity

    def row(what: str, score: Any, n: int, kept: float, skipped: float) -> dict[str, Any]:
        covered = {"covered": score.n_covered, "coverage": score.coverage}
        return {"set": test.name, "what": what, "n": n, **covered, "kept": kept, "skipped": skipped}

    if isinstance(test, WordPairs):
        score = evaluate_similarity(vectors, test, of=chosen.of)
        yield row("pairs", score, score.n_pairs, score.kept, score.skipped)
        return
    report = evaluate_analogies(vectors, test, rule=chosen.rule, of=chosen.of, among=chosen.among)
    parts = {"": report.total, "semantic ": report.semantic, "syntactic ": report.syntactic}
    for kind, part in parts.items():
        if part is not None:
            shares = part.accuracy, part.accuracy_covered
            yield row(f"{kind}analogies", part, part.n_questions, *shares)


def _convert(chosen: Any) -> None:
    from exfam.cli.output import note
    from exfam.vectors.files.formats import format_of_name

    path = Path(chosen.output)
    check_output_file(path)
    try:
        format = chosen.format or format_of_name(path)
    except ExfamError:
        raise ExfamError(
            f"`--output` must end in .txt, .vec, .bin or .safetensors (and maybe .gz), got "
            f"{chosen.output!r}. Or name a --format: {', '.join(_FORMATS)}."
        ) from None
    vectors = _opened(chosen)
    with reworded({"`path`": "`--output`"}):
        vectors.save(path, format=format, of=chosen.of)
    note(f"{len(vectors):,} words of {vectors.dim} numbers written to {path}")


NEIGHBORS = Form(
    "neighbors",
    "The words nearest to words",
    [
        _VECTORS,
        Option(
            "words", words, "whose neighbors to find; one or several", metavar="WORD...",
            positional=True, required=True, many=True,
        ),
        switch("sum", "look for words near the sum of all, rather than near each"),
        Option("minus", words, "subtract this word from the sum", metavar="WORD", many=True),
        count("k", "of each word", default=10, short="-k"),
        _OF,
        *_READING,
    ],
    answers=_neighbors,
    example="exfam neighbors vectors/ cat dog -k 3\n"
    "exfam neighbors vectors/ cats dog:0.8 --minus cat",
    notes=_OF_NEIGHBORS,
)  # fmt: skip
ANALOGY = Form(
    "analogy",
    "A is to B as C is to which word",
    [
        _VECTORS,
        *(
            Option(name, text, help, metavar=name.upper(), positional=True, required=True)
            for name, help in (
                ("a", "the word that is to B"), ("b", "as C is"), ("c", "to the word looked for")
            )
        ),
        Option(
            "more", words, "further questions of three words each", metavar="A B C...",
            positional=True, many=True,
        ),
        _RULE,
        count("k", "words to find", default=10, short="-k"),
        _OF,
        *_READING,
    ],
    answers=_analogy,
    example="exfam analogy vectors/ cat cats dog -k 3\n"
    "exfam analogy vectors/ cat cats dog cat dog cats -k 1",
    notes=_OF_ANALOGIES,
)  # fmt: skip
EVALUATE = Form(
    "evaluate words",
    "Word vectors beside what people say of pairs of words, and analogies",
    [
        _VECTORS,
        Option("tests", text, "a folder of test sets of one's own", metavar="FOLDER"),
        _RULE,
        count("among", "look for answers among the first words alone (default: all)"),
        _OF,
        *_READING,
    ],
    answers=_evaluate,
    example="exfam evaluate words vectors/ --tests pairs/",
    notes=_OF_TESTS,
)
_WHICH = "center, context or both, their sum, alone (default: all that the format holds)"
CONVERT = Form(
    "convert",
    "Write word vectors in another format",
    [
        _VECTORS,
        output("the file to write", "FILE"),
        choice("format", _FORMATS, "of FILE (default: by its ending)"),
        replace(_OF, help=_WHICH, default=None),
        *_READING,
    ],
    run=_convert,
    example="exfam convert vectors/ -o vectors.txt --format glove\n"
    "exfam convert vectors.txt -o vectors.safetensors",
    notes=_OF_FORMATS,
)
