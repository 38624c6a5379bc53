"""`exfam probe dependencies`."""

from collections.abc import Sequence
from typing import Any

from exfam.checks import ExfamError
from exfam.cli.common import OUTPUT
from exfam.cli.kinds import text, whole
from exfam.cli.options import Form, Option
from exfam.cli.probes.encoder import ENCODER, TERM, open_encoder

_NOTES = """Each attention head predicts, for each word, the word that it attends to most: its
syntactic head, or a word that it is the head of. The best head of each relation is chosen on
--dev and scored on --test, beside the best fixed offset, such as the word before; `low` and
`high` hold 95 % of the accuracies when sentences are redrawn. A root is its own head."""


def form(arguments: Sequence[str]) -> Form:
    """The options of `exfam probe dependencies`."""
    return Form(
        "probe dependencies",
        "Which of an encoder's attention heads find syntactic dependencies",
        [
            ENCODER,
            Option("dev", text, "parses that heads are chosen on, CoNLL-U, also .gz",
                   metavar="FILE", required=True),
            Option("test", text, "parses that they are scored on", metavar="FILE", required=True),
            Option("least", whole, "leave out relations of fewer dependencies (default 1)",
                   default=1, metavar="N"),
            Option("seed", whole, "of the redrawing (default 0)", default=0, metavar="N"),
            TERM,
            *OUTPUT,
        ],
        example="exfam probe dependencies encoder/ --dev dev.conllu --test test.conllu",
        notes=_NOTES,
    )  # fmt: skip


def run(chosen: Any) -> None:
    """Print a relation a row, the most frequent first."""
    from functools import partial

    from exfam.cli.output import deliver, destination
    from exfam_studies.positions.dependencies import (
        attention_hits,
        best_predictors,
        offset_hits,
        score_predictors,
    )

    to = destination(chosen.format, chosen.output)
    encoder = open_encoder(chosen.encoder, term=chosen.term)
    dev, test = (_parses(encoder, getattr(chosen, part), part) for part in ("dev", "test"))

    def scores(hits: Any) -> Any:
        return score_predictors(hits(test), best_predictors(hits(dev)), seed=chosen.seed)

    # Offsets first: a wrong seed is refused before attention is computed.
    offsets = {score.relation: score for score in scores(offset_hits)}
    heads = scores(partial(attention_hits, encoder))
    shown = [score for score in heads if score.n_edges >= chosen.least]
    best = [offsets[score.relation] for score in shown]
    columns = {
        "relation": [score.relation for score in shown],
        "n": [score.n_edges for score in shown],
        "predictor": [score.predictor for score in shown],
        "accuracy": [score.accuracy.mean for score in shown],
        "low": [score.accuracy.low for score in shown],
        "high": [score.accuracy.high for score in shown],
        "offset": [score.predictor for score in best],
        "accuracy of the offset": [score.accuracy.mean for score in best],
    }
    deliver(columns, to)


def _parses(encoder: Any, path: str, option: str) -> Any:
    """The parses that the encoder has positions for; how many it has not is printed."""
    import sys

    from exfam_studies.positions.dependencies import unspaced
    from exfam_studies.positions.parses import read_conllu

    try:
        parses = read_conllu(path)
    except ExfamError as error:
        raise ExfamError(str(error).replace("`path`", f"`--{option}`", 1)) from error
    fits = encoder.fits([unspaced(parse.words) for parse in parses])
    if not fits.all():
        print(
            f"{(~fits).sum()} of {len(fits)} sentences of {path} are left out: they have more than "
            f"the {encoder.most_tokens} tokens that the encoder takes",
            file=sys.stderr,
        )
    return [parse for parse, fitting in zip(parses, fits, strict=True) if fitting]
