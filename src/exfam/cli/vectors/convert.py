"""`exfam convert`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from exfam.checks import ExfamError
from exfam.cli.kinds import one_of, text
from exfam.cli.options import Form, Option
from exfam.cli.vectors.opening import OF, VECTORS, open_vectors
from exfam.cli.writable import check_may_write

# Those of the library, whose list would load what help need not wait for.
_FORMATS = ("word2vec", "word2vec-binary", "glove", "fasttext", "safetensors")
_NOTES = """word2vec is its text format. Without --format the ending of FILE decides: .bin
(word2vec's binary), .txt (its text), .vec (fastText) or .safetensors; with .gz after it the file is
packed. safetensors keeps center and context vectors, tied ones once; all others hold one vector per
word: the center's, or those of --of."""


def form(arguments: Sequence[str]) -> Form:
    """The options of `exfam convert`."""
    which = "center, context or both, their sum, alone (default: all that the format holds)"
    return Form(
        "convert",
        "Write word vectors in another format",
        [
            VECTORS[0],
            Option(
                "output", text, "the file to write", metavar="FILE", short="-o", required=True
            ),
            Option(
                "format", one_of(list(_FORMATS)), "of FILE (default: by its ending)",
                metavar="{" + ",".join(_FORMATS) + "}",
            ),
            Option("of", OF.kind, which, metavar=OF.metavar),
            *VECTORS[1:],
        ],
        example="exfam convert vectors/ -o vectors.txt --format glove\n"
        "exfam convert vectors.txt -o vectors.safetensors",
        notes=_NOTES,
    )  # fmt: skip


def run(chosen: Any) -> None:
    """Write the file."""
    from exfam.cli.notes import note
    from exfam.vectors.files.formats import format_of_name

    path = Path(chosen.output)
    if path.is_dir():
        raise ExfamError(f"`--output` must be a file, got a folder at {path}.")
    check_may_write("--output", path)
    try:
        format = chosen.format or format_of_name(path)
    except ExfamError:
        raise ExfamError(
            f"`--output` must end in .txt, .vec, .bin or .safetensors (and maybe .gz), got "
            f"{chosen.output!r}. Or name a --format: {', '.join(_FORMATS)}."
        ) from None
    vectors = open_vectors(chosen)
    try:
        vectors.save(path, format=format, of=chosen.of)
    except ExfamError as error:
        raise ExfamError(str(error).replace("`path`", "`--output`")) from error
    note(f"{len(vectors):,} words of {vectors.dim} numbers written to {path}")
