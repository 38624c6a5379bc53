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
    from exfam_studies.positions.dependencies import attention_hits, offset_hits

    to = destination(chosen.format, chosen.output)
    encoder = open_encoder(chosen.encoder, term=chosen.term)
    dev = _fitting(encoder, _parses(chosen.dev, option="dev"), chosen.dev)
    test = _fitting(encoder, _parses(chosen.test, option="test"), chosen.test)
    # Offsets first: a wrong seed is refused before attention is computed.
    offsets = {score.relation: score for score in _scores(offset_hits, dev, test, chosen.seed)}
    heads = _scores(partial(attention_hits, encoder), dev, test, chosen.seed)
    rows = [
        {
            "relation": score.relation,
            "n": score.n_edges,
            "predictor": score.predictor,
            "accuracy": score.accuracy.mean,
            "low": score.accuracy.low,
            "high": score.accuracy.high,
            "offset": offsets[score.relation].predictor,
            "accuracy of the offset": offsets[score.relation].accuracy.mean,
        }
        for score in heads
        if score.n_edges >= chosen.least
    ]
    names = ("relation", "n", "predictor", "accuracy", "low", "high", "offset")
    columns = (*names, "accuracy of the offset")
    deliver({name: [row[name] for row in rows] for name in columns}, to)


def _parses(path: str, *, option: str) -> Any:
    from exfam_studies.positions.parses import read_conllu

    try:
        return read_conllu(path)
    except ExfamError as error:
        raise ExfamError(str(error).replace("`path`", f"`--{option}`", 1)) from error


def _fitting(encoder: Any, parses: Any, path: str) -> Any:
    """The parses that the encoder has positions for; how many it has not is printed."""
    import sys

    from exfam_studies.positions.dependencies import unspaced

    fits = encoder.fits([unspaced(parse.words) for parse in parses])
    if not fits.all():
        print(
            f"{(~fits).sum()} of {len(fits)} sentences of {path} are left out: they have more than "
            f"the {encoder.most_tokens} tokens that the encoder takes",
            file=sys.stderr,
        )
    return [parse for parse, fitting in zip(parses, fits, strict=True) if fitting]


def _scores(find: Any, dev: Any, test: Any, seed: int) -> Any:
    from exfam_studies.positions.dependencies import best_predictors, score_predictors

    return score_predictors(find(test), best_predictors(find(dev)), seed=seed)
