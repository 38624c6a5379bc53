"""Word vectors that a command is given: a saved model, or a file."""

from pathlib import Path
from typing import Any

from exfam.checks import ExfamError
from exfam.cli.kinds import one_of, text, whole
from exfam.cli.options import Option

_READING = (
    Option(
        "context", text, "a second file, which holds the context vectors of the same words",
        metavar="FILE",
    ),
    Option("limit", whole, "of a file, the first rows alone", metavar="N"),
    Option(
        "errors", one_of(("strict", "replace", "ignore")),
        "of a file, what is done with words that are not UTF-8: strict, an error; replace and "
        "ignore, a mark or nothing in place of wrong bytes (default strict)",
        metavar="{strict,replace,ignore}",
    ),
    Option(
        "duplicates", one_of(("error", "first")),
        "of a file, what is done with repeated words: error, or first, which keeps the first "
        "(default error)",
        metavar="{error,first}",
    ),
)  # fmt: skip
VECTORS = (
    Option(
        "vectors", text,
        "a saved model of words, or a file: word2vec text or binary, GloVe, fastText .vec, "
        "safetensors, also .gz",
        metavar="VECTORS", positional=True, required=True,
    ),
    *_READING,
)  # fmt: skip
OF = Option(
    "of", one_of(("center", "context", "both")),
    "which vectors of the words: center, context, or both, their sum (default center)",
    default="center", metavar="{center,context,both}",
)  # fmt: skip
RULE = Option(
    "rule", one_of(("3cosadd", "3cosmul")),
    "how an analogy is answered: 3cosadd, by sums of cosines, or 3cosmul, by products "
    "(default 3cosadd)",
    default="3cosadd", metavar="{3cosadd,3cosmul}",
)  # fmt: skip


def open_vectors(chosen: Any) -> Any:
    """The `WordVectors` of a saved model's folder, or of a file.

    Raises ExfamError for what holds none, and for options of files that come with a folder.
    """
    from exfam.vectors import WordVectors
    from exfam.vectors.word_vectors import model_vectors

    named = {option.name: getattr(chosen, option.name) for option in _READING}
    given = {name: value for name, value in named.items() if value is not None}
    path = Path(chosen.vectors)
    try:
        if not path.is_dir():
            return WordVectors.load(path, **given)
        if given:
            name, value = next(iter(given.items()))
            raise ExfamError(f"`--{name}` must be left out for a saved model, got {value!r}.")
        return WordVectors(*model_vectors(path))
    except ExfamError as error:
        raise ExfamError(str(error).replace("`path`", "`VECTORS`")) from error
