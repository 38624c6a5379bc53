"""`exfam evaluate words`."""

from collections.abc import Sequence
from typing import Any

from exfam.cli.common import OUTPUT
from exfam.cli.kinds import text, whole
from exfam.cli.options import Form, Option
from exfam.cli.vectors.opening import OF, RULE, VECTORS, open_vectors

_NOTES = """Pairs of words: Spearman's correlation of cosines with what people say. Analogies: the
share that is answered rightly, all and by kind. `covered` of all `n` have vectors for all their
words. `kept` counts the others too: at a cosine of 0, or as wrong answers; `skipped` leaves
them out.

The published sets are looked for in the folder wordsim of the one that EXFAM_DATA names, and
in the user's cache. --tests FOLDER takes all its .txt, .csv and .tsv files (also .gz): two words
and a number per line are pairs, four words per line are analogies."""


def form(arguments: Sequence[str]) -> Form:
    """The options of `exfam evaluate words`."""
    return Form(
        "evaluate words",
        "Word vectors beside what people say of pairs of words, and analogies",
        [
            VECTORS[0],
            Option("tests", text, "a folder of test sets of one's own", metavar="FOLDER"),
            RULE,
            Option(
                "among", whole, "look for answers among the first words alone (default: all)",
                metavar="N",
            ),
            OF,
            *VECTORS[1:],
            *OUTPUT,
        ],
        example="exfam evaluate words vectors/ --tests pairs/",
        notes=_NOTES,
    )  # fmt: skip


def run(chosen: Any) -> None:
    """Print one row per set, or kind of its analogies."""
    from exfam.cli.notes import note
    from exfam.cli.output import deliver, destination
    from exfam.cli.vectors.sets import found_sets, sets_of

    to = destination(chosen.format, chosen.output)
    vectors = open_vectors(chosen)
    if chosen.tests is None:
        sets, missing = found_sets()
        if missing:
            note(f"not found: {', '.join(missing)}")
    else:
        sets = sets_of(chosen.tests)
    rows = [row for test in sets for row in _rows(vectors, test, chosen)]
    deliver({name: [row[name] for row in rows] for name in rows[0]}, to)


def _rows(vectors: Any, test: Any, chosen: Any) -> list[dict[str, Any]]:
    from exfam.reading.public_sets.word_pairs import WordPairs
    from exfam.vectors import evaluate_analogies, evaluate_similarity

    if isinstance(test, WordPairs):
        score = evaluate_similarity(vectors, test, of=chosen.of)
        counted = _counted(score, score.n_pairs)
        return [
            {"set": test.name, "what": "pairs", **counted, **_shares(score.kept, score.skipped)}
        ]
    report = evaluate_analogies(vectors, test, rule=chosen.rule, of=chosen.of, among=chosen.among)
    parts = {
        "analogies": report.total,
        "semantic analogies": report.semantic,
        "syntactic analogies": report.syntactic,
    }
    return [
        {
            "set": test.name,
            "what": what,
            **_counted(part, part.n_questions),
            **_shares(part.accuracy, part.accuracy_covered),
        }
        for what, part in parts.items()
        if part is not None
    ]


def _counted(score: Any, n: int) -> dict[str, Any]:
    return {"n": n, "covered": score.n_covered, "coverage": score.coverage}


def _shares(kept: float, skipped: float) -> dict[str, float]:
    return {"kept": kept, "skipped": skipped}
