"""The encoder that a probe is given."""

from pathlib import Path
from typing import Any

from exfam.checks import ExfamError
from exfam.cli.kinds import one_of, text
from exfam.cli.options import Option

_TERMS = ("both", "contextual", "positional")
# A file that models of exfam have, and no others.
_OURS = "vocabulary.parquet"

ENCODER = Option(
    "encoder", text,
    "the folder of a masked language model or sentence classifier saved by exfam, or of a "
    "transformers model and its tokenizer; nothing is downloaded",
    metavar="ENCODER", positional=True, required=True,
)  # fmt: skip
TERM = Option(
    "term", one_of(_TERMS),
    "of attention, for models of exfam: as it is, by content or by position alone (default both)",
    default="both", metavar="{" + ",".join(_TERMS) + "}",
)  # fmt: skip


def open_encoder(folder: str, *, term: str) -> Any:
    """The encoder of a folder, of exfam or of transformers.

    Raises ExfamError for another model, and for a term of an encoder that cannot be split.
    """
    if not Path(folder, _OURS).is_file():
        from exfam.language.pretrained import PretrainedEncoder

        if term != "both":
            raise ExfamError(
                f"`--term` must be 'both' for an encoder of transformers, got {term!r}."
            )
        return PretrainedEncoder.load(folder)
    from exfam.estimator.saving import load

    model = load(folder)
    if not hasattr(model, "encoder"):
        raise ExfamError(
            f"`ENCODER` must be a masked language model or a classifier of sentences by one, got "
            f"{type(model).__name__} in {folder}."
        )
    return model.encoder(term=term)
