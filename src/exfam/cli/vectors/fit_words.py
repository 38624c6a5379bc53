"""`exfam fit words`."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from exfam.checks import ExfamError
from exfam.cli.common import TABLE_FORMATS
from exfam.cli.configs import last_given
from exfam.cli.kinds import flag, one_of, text
from exfam.cli.options import Form, Option
from exfam.cli.signatures import WORD_MODELS, build_estimator, estimator_options
from exfam.cli.writable import check_checkpoint, check_model_place, check_room, save_or_keep

INTERRUPTED = 130
_USUAL = "skip-gram"

_NOTES = """CORPUS is text in UTF-8, words apart by white space, as a rule one sentence per line: a
file, also .gz or .bz2, or a folder of files; or what prepare_text has prepared. Options not given
are those of the estimator; --model cbow --help and --model pmi --help list those of the others.
--print_config writes all of them as YAML, for --config. To fit another model to a file called
`words`, write ./words.

The table has the mean log-likelihood in nats of the last epoch's training, of a yes or no (with
--likelihood softmax, of a word); higher is better. A factorization has none. Ctrl-C keeps and
saves what is learned so far. `exfam neighbors`, `exfam analogy`, `exfam evaluate words` and
`exfam convert` take the folder."""


def form(words: Sequence[str]) -> Form:
    """The options of `exfam fit words`, of the model that the words choose."""
    named = last_given("model", words)
    model = named if named in WORD_MODELS else _USUAL
    return Form(
        "fit words",
        "Fit word vectors to a text and save them",
        [*_options(), *estimator_options(model)],
        example="exfam fit words corpus.txt -o vectors/\n"
        "exfam fit words corpus.txt --model skip-gram --tie reflection -o tied/",
        notes=_NOTES,
        config=True,
        spoken="exfam fit words" if model == _USUAL else f"exfam fit words --model {model}",
    )


def _options() -> list[Option]:
    return [
        Option(
            "corpus", text, "the text: a file, a folder of files, or a prepared text",
            metavar="CORPUS", positional=True, required=True,
        ),
        Option(
            "output", text, "the folder to save the model in", metavar="VECTORS", short="-o",
            required=True,
        ),
        Option(
            "model", one_of(list(WORD_MODELS)), f"which estimator (default {_USUAL})",
            default=_USUAL, metavar="{" + ",".join(WORD_MODELS) + "}",
        ),
        Option(
            "checkpoint", text, "a folder from which a fit that was killed goes on when repeated",
            metavar="FOLDER",
        ),
        Option(
            "overwrite", flag, "replace the model in --output (default no)",
            default=False, metavar="BOOL",
        ),
        Option(
            "format", one_of(TABLE_FORMATS), "of the table on stdout (default table)",
            metavar="{" + ",".join(TABLE_FORMATS) + "}",
        ),
    ]  # fmt: skip


def run(chosen: Any) -> int:
    """Fit, save, print what was learned."""
    from exfam.cli.notes import note
    from exfam.cli.output import deliver, destination

    to = destination(chosen.format, None)
    check_model_place(chosen.output, overwrite=chosen.overwrite)
    check_checkpoint(chosen.checkpoint)
    check_room(Path(chosen.output))
    estimator = build_estimator(chosen.model, chosen)
    estimator._check_parameters()
    started = time.perf_counter()
    _fit(estimator, chosen)
    seconds = time.perf_counter() - started
    interrupted = _is_interrupted(estimator)
    save_or_keep(estimator, chosen.output, overwrite=chosen.overwrite)
    if interrupted:
        note("interrupted: what was learned so far is kept")
    note(f"saved in {chosen.output}")
    deliver(_summary(estimator, chosen.model) | {"seconds": [seconds]}, to)
    return INTERRUPTED if interrupted else 0


def _fit(estimator: Any, chosen: Any) -> None:
    keep = "folder" if chosen.model == "pmi" else "checkpoint"
    try:
        estimator.fit(chosen.corpus, **{keep: chosen.checkpoint})
    except ExfamError as error:
        message = str(error).replace("`folder`", "`checkpoint`")
        for name in ("`source`", "`X`", "`path`"):
            message = message.replace(name, "`CORPUS`")
        raise ExfamError(message) from error


def _is_interrupted(estimator: Any) -> bool:
    """Whether Ctrl-C ended the fit; raises KeyboardInterrupt if no epoch was completed before."""
    rows, stopped = _history(estimator)
    if stopped and not rows:
        raise KeyboardInterrupt("before the first epoch ended")
    return stopped


def _history(estimator: Any) -> tuple[Sequence[Any], bool]:
    """The epochs, none of a factorization, and whether Ctrl-C ended them."""
    histories = getattr(estimator, "histories_", [])
    return (histories[-1].rows, histories[-1].interrupted) if histories else ((), False)


def _summary(estimator: Any, model: str) -> dict[str, list[Any]]:
    vectors = estimator.vectors_
    rows, _ = _history(estimator)
    return {
        "model": [model],
        "words": [len(vectors)],
        "dim": [vectors.dim],
        "tied": ["yes" if vectors.tied else "no"],
        "nats": [-rows[-1].train_nats if rows else float("nan")],
    }
