"""`exfam neighbors`."""

from collections.abc import Sequence
from typing import Any

from exfam.cli.common import OUTPUT
from exfam.cli.kinds import whole, words
from exfam.cli.options import Form, Option
from exfam.cli.vectors.opening import OF, VECTORS, open_vectors

_NOTES = """Of each word the others with the largest cosine, nearest first. A word is looked for as
it is written. A file of millions of words takes a while to read: --limit 200000 reads the
first rows, as a rule those of the most frequent words."""


def form(arguments: Sequence[str]) -> Form:
    """The options of `exfam neighbors`."""
    return Form(
        "neighbors",
        "The words nearest to words",
        [
            VECTORS[0],
            Option(
                "words", words, "whose neighbors to find; one or several", metavar="WORD...",
                positional=True, required=True, many=True,
            ),
            Option("k", whole, "of each word (default 10)", default=10, metavar="N", short="-k"),
            OF,
            *VECTORS[1:],
            *OUTPUT,
        ],
        example="exfam neighbors vectors/ cat dog -k 3",
        notes=_NOTES,
    )  # fmt: skip


def run(chosen: Any) -> None:
    """Print one neighbor per row."""
    from exfam.cli.output import deliver, destination

    to = destination(chosen.format, chosen.output)
    vectors = open_vectors(chosen)
    neighbors = vectors.neighbors(list(dict.fromkeys(chosen.words)), k=chosen.k, of=chosen.of)
    rows = [
        (word, near.word, near.score) for word, all_near in neighbors.items() for near in all_near
    ]
    names = ("word", "neighbor", "cosine")
    deliver({name: [row[column] for row in rows] for column, name in enumerate(names)}, to)
