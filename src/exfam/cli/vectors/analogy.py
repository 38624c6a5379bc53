"""`exfam analogy`."""

from collections.abc import Sequence
from typing import Any

from exfam.cli.common import OUTPUT
from exfam.cli.kinds import text, whole
from exfam.cli.options import Form, Option
from exfam.cli.vectors.opening import OF, RULE, VECTORS, open_vectors

_NOTES = """A is to B as C is to the first word: `exfam analogy vectors/ man king woman`. A, B and
C are no answers."""


def form(arguments: Sequence[str]) -> Form:
    """The options of `exfam analogy`."""
    words = (("a", "the word that is to B"), ("b", "as C is"), ("c", "to the word looked for"))
    return Form(
        "analogy",
        "A is to B as C is to which word",
        [
            VECTORS[0],
            *(
                Option(
                    name, text, description, metavar=name.upper(), positional=True, required=True
                )
                for name, description in words
            ),
            RULE,
            Option("k", whole, "words to find (default 10)", default=10, metavar="N", short="-k"),
            OF,
            *VECTORS[1:],
            *OUTPUT,
        ],
        example="exfam analogy vectors/ cat cats dog -k 3",
        notes=_NOTES,
    )


def run(chosen: Any) -> None:
    """Print one answer per row, the best first."""
    from exfam.cli.output import deliver, destination

    to = destination(chosen.format, chosen.output)
    vectors = open_vectors(chosen)
    words = chosen.a, chosen.b, chosen.c
    answers = vectors.analogy(*words, rule=chosen.rule, k=chosen.k, of=chosen.of)
    columns = {name: [getattr(answer, name) for answer in answers] for name in ("word", "score")}
    deliver(columns, to)
