"""`exfam probe positions`."""

from collections.abc import Sequence
from typing import Any

from exfam.cli.common import OUTPUT
from exfam.cli.kinds import one_of, whole
from exfam.cli.options import Form, Option
from exfam.cli.probes.encoder import ENCODER, TERM, open_encoder

_NOTES = """Attention to sentences of one word over and over is attention to positions.
Locality is the mass near the diagonal, halved with each step; symmetry says whether equal
distances to both sides weigh alike: over all pairs of all rows, as a mean over rows (macro),
and without normalization (raw). The model's row is that of the mean matrix, which is not the
mean of its heads' rows."""
# What rows are about -> which scores.
_BY = ("model", "layer", "head")
_SPECIAL = ("none", "kept", "cut")


def form(arguments: Sequence[str]) -> Form:
    """The options of `exfam probe positions`."""
    return Form(
        "probe positions",
        "How local and symmetric an encoder's attention to positions is",
        [
            ENCODER,
            Option("words", whole, "words that are repeated, a sentence each (default 100)",
                   default=100, metavar="N"),
            Option("length", whole, "tokens of a sentence (default 128)", default=128, metavar="N"),
            Option(
                "special_tokens", one_of(_SPECIAL),
                "none: words alone; kept: sentences begin and end as the encoder is used to; cut: "
                "so, but their rows and columns are left out (default none)",
                default="none", metavar="{" + ",".join(_SPECIAL) + "}",
            ),
            Option("by", one_of(_BY), "rows of the model, its layers or its heads (default model)",
                   default="model", metavar="{" + ",".join(_BY) + "}"),
            Option("seed", whole, "of the words that are drawn (default 0)", default=0,
                   metavar="N"),
            TERM,
            *OUTPUT,
        ],
        example="exfam probe positions encoder/ --words 3 --length 8 --by layer",
        notes=_NOTES,
    )  # fmt: skip


def run(chosen: Any) -> None:
    """Print the scores, a row each."""
    from exfam.cli.output import deliver, destination
    from exfam.positions import identical_word_probe

    to = destination(chosen.format, chosen.output)
    probe = identical_word_probe(
        open_encoder(chosen.encoder, term=chosen.term),
        words=chosen.words,
        length=chosen.length,
        special_tokens=chosen.special_tokens,
        seed=chosen.seed,
    )
    deliver(_columns(probe, chosen.by), to)


def _columns(probe: Any, by: str) -> dict[str, list[Any]]:
    n_layers, n_heads = probe.weights.shape[:2]
    layers, heads = list(range(1, n_layers + 1)), list(range(1, n_heads + 1))
    names: dict[str, dict[str, list[Any]]] = {
        "model": {},
        "layer": {"layer": layers},
        "head": {"layer": [layer for layer in layers for _ in heads], "head": heads * n_layers},
    }
    scores = {
        "model": probe.model_scores, "layer": probe.layer_scores, "head": probe.head_scores
    }[by]()  # fmt: skip
    figures = {
        "locality": scores.locality,
        "symmetry": scores.symmetry,
        "symmetry (macro)": scores.macro_symmetry,
        "symmetry (raw)": scores.raw_symmetry,
    }
    return names[by] | {name: figure.flatten().tolist() for name, figure in figures.items()}
