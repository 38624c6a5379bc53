"""`exfam probe positions`, and the encoder that a probe is given."""

from pathlib import Path
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.cli.kinds import text
from exfam.cli.options import Form, Option, choice, count

_NOTES = """Attention to sentences of one word over and over is attention to positions.
Locality is the mass near the diagonal, halved with each step; symmetry says whether equal
distances to both sides weigh alike: over all pairs of all rows, as a mean over rows (macro),
and without normalization (raw). The model's row is that of the mean matrix, which is not the
mean of its heads' rows."""
# A file that models of exfam have, and no others.
_OURS = "vocabulary.parquet"

ENCODER = Option(
    "encoder", text,
    "the folder of a masked language model or sentence classifier saved by exfam, or of a "
    "transformers model and its tokenizer; nothing is downloaded",
    metavar="ENCODER", positional=True, required=True,
)  # fmt: skip
TERM = choice(
    "term",
    ("both", "contextual", "positional"),
    "of attention, for models of exfam: as it is, by content or by position alone",
    default="both",
)


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


def _scores(chosen: Any) -> dict[str, list[Any]]:
    from exfam.positions import identical_word_probe

    probe = identical_word_probe(
        open_encoder(chosen.encoder, term=chosen.term),
        words=chosen.words,
        length=chosen.length,
        special_tokens=chosen.special_tokens,
        seed=chosen.seed,
    )
    scores = getattr(probe, f"{chosen.by}_scores")()
    shape = scores.locality.shape  # none of the model, layers, or layers and heads
    numbers = np.indices(shape).reshape(len(shape), scores.locality.numel()) + 1
    columns = dict(zip(("layer", "head"), numbers.tolist(), strict=False))
    for name, figure in (
        ("locality", scores.locality),
        ("symmetry", scores.symmetry),
        ("symmetry (macro)", scores.macro_symmetry),
        ("symmetry (raw)", scores.raw_symmetry),
    ):
        columns[name] = figure.flatten().tolist()
    return columns


PROBE = Form(
    "probe positions",
    "How local and symmetric an encoder's attention to positions is",
    [
        ENCODER,
        count("words", "words that are repeated, a sentence each", default=100),
        count("length", "tokens of a sentence", default=128),
        choice(
            "special_tokens",
            ("none", "kept", "cut"),
            "none: words alone; kept: sentences begin and end as the encoder is used to; cut: "
            "so, but their rows and columns are left out",
            default="none",
        ),
        choice(
            "by",
            ("model", "layer", "head"),
            "rows of the model, its layers or its heads",
            default="model",
        ),
        count("seed", "of the words that are drawn", default=0),
        TERM,
    ],
    answers=_scores,
    example="exfam probe positions encoder/ --words 3 --length 8 --by layer",
    notes=_NOTES,
)
