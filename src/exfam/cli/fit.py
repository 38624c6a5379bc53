"""`exfam fit`."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exfam.checks import ExfamError
from exfam.cli.common import FILE, READING, TABLE_FORMATS, duplicates
from exfam.cli.configs import last_given
from exfam.cli.fit_forms import FIT_FORMS
from exfam.cli.kinds import flag, one_of, text
from exfam.cli.notes import note
from exfam.cli.options import Form, Option
from exfam.cli.signatures import MODELS, build_estimator, estimator_options

if TYPE_CHECKING:
    from exfam.cli.sorts import PlannedFit, Sort

INTERRUPTED = 130


def form(words: Sequence[str]) -> Form:
    """The options of `exfam fit`, of the model that the words choose."""
    named = last_given("model", words)
    model = named if named in MODELS else "efa"
    own = FIT_FORMS[MODELS[model].reads]
    return Form(
        "fit",
        "Fit a model to a file and save it",
        [
            *(option for option in _options() if option.name not in own.left_out),
            *own.options(model),
            *estimator_options(model),
        ],
        example=own.example(model),
        notes=own.notes,
        config=True,
        spoken="exfam fit" if model == "efa" else f"exfam fit --model {model}",
    )


def _options() -> list[Option]:
    return [
        FILE,
        Option(
            "output", text, "the folder to save the model in", metavar="MODEL", short="-o",
            required=True,
        ),
        Option(
            "model", one_of(list(MODELS)), "which estimator (default efa)",
            default="efa", metavar="{" + ",".join(MODELS) + "}",
        ),
        Option(
            "validation", text, "data to choose the epoch by, instead of a share of FILE",
            metavar="FILE",
        ),
        Option(
            "checkpoint", text, "a folder from which a fit that was killed goes on when repeated",
            metavar="FOLDER",
        ),
        Option(
            "overwrite", flag, "replace the model in --output (default no)",
            default=False, metavar="BOOL",
        ),
        duplicates("error"),
        *READING,
        Option(
            "format", one_of(TABLE_FORMATS),
            "of the table of scores on stdout (default table)",
            metavar="{" + ",".join(TABLE_FORMATS) + "}",
        ),
    ]  # fmt: skip


def run(chosen: Any) -> int:
    """Fit, save, print scores beside baselines."""
    from exfam.cli.output import deliver, destination
    from exfam.cli.sorts import sort_named
    from exfam.cli.writable import check_checkpoint, check_model_place, check_room, save_or_keep
    from exfam.training.ranks import is_main_rank

    to = destination(chosen.format, None)
    check_model_place(chosen.output, overwrite=chosen.overwrite)
    check_checkpoint(chosen.checkpoint)
    estimator = build_estimator(chosen.model, chosen)
    estimator._check_parameters()
    sort = sort_named(MODELS[chosen.model].reads)
    assert sort.plan is not None
    plan = sort.plan(estimator, chosen)
    # On a terminal at once; elsewhere after success, so that an error is the only line.
    say = _Notes(at_once=sys.stderr.isatty())
    say(f"{chosen.file}: {plan.description}")
    check_room(Path(chosen.output), _n_numbers(estimator, plan.train))
    started = time.perf_counter()
    with plan.errors:
        estimator.fit(*plan.given, validation=plan.validation, checkpoint=chosen.checkpoint)
    seconds = time.perf_counter() - started
    status = _interrupted(estimator, say)
    if is_main_rank():
        save_or_keep(estimator, chosen.output, overwrite=chosen.overwrite)
        say(f"saved in {chosen.output}")
        table, notes = _compared(sort, estimator, plan, seconds, chosen.output)
        say(*notes)
        say.flush()
        deliver(table, to)
    return status


def _compared(
    sort: "Sort", estimator: Any, plan: "PlannedFit", seconds: float, output: str
) -> tuple[Any, list[str]]:
    from exfam.cli import scoreboard

    assert sort.comparison is not None
    try:
        return scoreboard.scoreboard(
            sort.comparison, estimator, plan.train, plan.held_out, seconds=seconds
        )
    except ExfamError as error:
        raise ExfamError(f"{error} The model is saved in {output}.") from error


def _n_numbers(estimator: Any, train: Any) -> int:
    """About how many numbers the fitted model will have, all members together.

    Two vectors per item, and in each layer four matrices between elements and heads.
    """

    def chosen(name: str, default: int) -> int:
        value = getattr(estimator, name, default)
        return value if isinstance(value, int) else default

    dim = chosen("embed_dim", chosen("dim", 1))
    of_items = 2 * getattr(train, "n_items", 0) * dim
    of_layers = 4 * chosen("n_layers", 0) * dim * chosen("n_heads", 1) * chosen("head_dim", 1)
    return (of_items + of_layers) * chosen("ensemble", 1)


class _Notes:
    """Lines for the reader, printed at once or all together."""

    def __init__(self, *, at_once: bool) -> None:
        self.at_once = at_once
        self.lines: list[str] = []

    def __call__(self, *lines: str) -> None:
        self.lines += lines
        if self.at_once:
            self.flush()

    def flush(self) -> None:
        note(*self.lines)
        self.lines = []


def _interrupted(estimator: Any, say: "_Notes") -> int:
    """The exit status; raises KeyboardInterrupt if no epoch was completed before Ctrl-C."""
    histories = getattr(estimator, "histories_", [])
    if not histories or not histories[-1].interrupted:
        return 0
    if not histories[-1].rows:
        # The last member of an ensemble has learned nothing worth keeping.
        histories.pop(), estimator.members_.pop()
    if not histories:
        raise KeyboardInterrupt("before the first epoch ended")
    say("interrupted: the best weights so far are kept")
    return INTERRUPTED
