"""`exfam probe dependencies`."""

from functools import partial
from typing import Any

from exfam.checks import ExfamError
from exfam.cli.kinds import text
from exfam.cli.options import Form, Option, count
from exfam.cli.probes import ENCODER, TERM, open_encoder

_NOTES = """Each attention head predicts, for each word, the word that it attends to most: its
syntactic head, or a word that it is the head of. The best head of each relation is chosen on
--dev and scored on --test, beside the best fixed offset, such as the word before; `low` and
`high` hold 95 % of the accuracies when sentences are redrawn. A root is its own head."""


def _scores(chosen: Any) -> dict[str, list[Any]]:
    """A relation a row, the most frequent first."""
    from exfam_studies.positions.dependencies import (
        attention_hits,
        best_predictors,
        offset_hits,
        score_predictors,
    )

    encoder = open_encoder(chosen.encoder, term=chosen.term)
    dev, test = (_parses(encoder, getattr(chosen, part), part) for part in ("dev", "test"))

    def scores(hits: Any) -> Any:
        return score_predictors(hits(test), best_predictors(hits(dev)), seed=chosen.seed)

    # Offsets first: a wrong seed is refused before attention is computed.
    offsets = {score.relation: score for score in scores(offset_hits)}
    heads = scores(partial(attention_hits, encoder))
    shown = [score for score in heads if score.n_edges >= chosen.least]
    return {
        "relation": [score.relation for score in shown],
        "n": [score.n_edges for score in shown],
        "predictor": [score.predictor for score in shown],
        "accuracy": [score.accuracy.mean for score in shown],
        "low": [score.accuracy.low for score in shown],
        "high": [score.accuracy.high for score in shown],
        "offset": [offsets[score.relation].predictor for score in shown],
        "accuracy of the offset": [offsets[score.relation].accuracy.mean for score in shown],
    }


def _parses(encoder: Any, path: str, option: str) -> Any:
    """The parses that the encoder has positions for; how many it has not is printed."""
    from exfam.cli.output import note
    from exfam_studies.positions.dependencies import unspaced
    from exfam_studies.positions.parses import read_conllu

    try:
        parses = read_conllu(path)
    except ExfamError as error:
        raise ExfamError(str(error).replace("`path`", f"`--{option}`", 1)) from error
    fits = encoder.fits([unspaced(parse.words) for parse in parses])
    if not fits.all():
        note(
            f"{(~fits).sum()} of {len(fits)} sentences of {path} are left out: they have more than "
            f"the {encoder.most_tokens} tokens that the encoder takes"
        )
    return [parse for parse, fitting in zip(parses, fits, strict=True) if fitting]


DEPENDENCIES = Form(
    "probe dependencies",
    "Which of an encoder's attention heads find syntactic dependencies",
    [
        ENCODER,
        Option("dev", text, "parses that heads are chosen on, CoNLL-U, also .gz", metavar="FILE",
               required=True),
        Option("test", text, "parses that they are scored on", metavar="FILE", required=True),
        count("least", "leave out relations of fewer dependencies", default=1),
        count("seed", "of the redrawing", default=0),
        TERM,
    ],
    answers=_scores,
    example="exfam probe dependencies encoder/ --dev dev.conllu --test test.conllu",
    notes=_NOTES,
)  # fmt: skip
