"""`exfam analogy`."""

from collections.abc import Sequence
from typing import Any

from exfam.cli.common import OUTPUT
from exfam.cli.kinds import text, whole
from exfam.cli.options import Form, Option
from exfam.cli.vectors.opening import OF, RULE, VECTORS, open_vectors

__all__ = ["form", "run"]

_NOTES = """A is to B as C is to the first word found: `exfam analogy vectors/ man king woman`. The
words asked with are no answers."""


def form(arguments: Sequence[str]) -> Form:
    """What `exfam analogy` can be asked."""
    asked = (("a", "the word that is to B"), ("b", "as C is"), ("c", "to the word looked for"))
    return Form(
        "analogy",
        "A is to B as C is to which word",
        [
            VECTORS[0],
            *(
                Option(name, text, told, metavar=name.upper(), positional=True, required=True)
                for name, told in asked
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
    """Print an answer a row, the best first."""
    from exfam.cli.output import deliver, destination

    to = destination(chosen.format, chosen.output)
    vectors = open_vectors(chosen)
    asked = chosen.a, chosen.b, chosen.c
    found = vectors.analogy(*asked, rule=chosen.rule, k=chosen.k, of=chosen.of)
    deliver({"word": [each.word for each in found], "score": [each.score for each in found]}, to)
