"""`exfam fit`."""

import importlib
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from exfam.checks import ExfamError
from exfam.cli.common import FILE, FORMATS, READING, duplicates
from exfam.cli.configs import last_given
from exfam.cli.kinds import column, columns, flag, one_of, text
from exfam.cli.options import Form, Option
from exfam.cli.signatures import MODELS, estimator_options

__all__ = ["form", "run"]

INTERRUPTED = 130

_NOTES = """--value, --order, --attributes and the like take several columns as --value stars
--value price, or as --value "[stars, price]". A family with arguments: --family
"ordinal(n=5, start=1)"; one for each value column: --family "{stars: ordinal(5), price:
gamma}", with quotes around a family that has commas. Options not given are those of the
estimator; --model latent-factor --help lists those of another model. --print_config
writes all of them as YAML, for --config.

A share of the groups (--validation-fraction) is held out, or --validation FILE is, and
chooses the epoch that is kept. The table tells nats an observation there, beside
baselines fitted on the same training groups. Ctrl-C keeps and saves the best epoch so
far.

Values at places and times have models of their own, such as --model field-efa, whose
columns are --time, --site, --coordinates and --value; there the last maps are held out.

Tables of rows and columns are for --model table-classifier and table-regressor, with a
--response, and --model table, without; --model table-classifier --help lists their options."""
_NOTES_OF_TABLES = """All columns but the --response are features, of any kind, with missing
cells as they are: an empty cell, NA, NaN or null of a CSV file. Kinds are guessed; --kinds
"{accidents: count, condition: [poor, fair, good]}" says otherwise, with labels in order.
Options not given are those of the estimator. --print_config writes all of them as YAML, for
--config.

The table tells nats, and accuracy or R^2, beside those of the response's marginal law (which
predicts the most probable label, or the mean): on rows held out (--validation-fraction, or
--validation FILE, which then choose the epoch that is kept), or else on those of training."""

# Options of reading that are none of a fit, or are parameters of its estimator.
_LEFT_OUT: dict[str, tuple[str, ...]] = {
    "groups": ("date_format",),
    "fields": ("duplicates", "database", "memory_limit", "date_format"),
    "tables": ("duplicates", "database", "memory_limit", "date_format"),
}
_EXAMPLE = """\
exfam fit ratings.csv --group user --order time --item movie --value stars \\
    --family "ordinal(n=5, start=1)" -o model"""
_EXAMPLES = {
    "table": "exfam fit cars.csv --model table -o model",
    "table-classifier": "exfam fit cars.csv --model table-classifier --response sold -o model",
    "table-regressor": "exfam fit cars.csv --model table-regressor --response price -o model",
}


def form(words: Sequence[str]) -> Form:
    """What `exfam fit` can be asked, of the model that the words choose."""
    asked = last_given("model", words)
    model = asked if asked in MODELS else "efa"
    of = MODELS[model].reads
    usual = [option for option in _options() if option.name not in _LEFT_OUT[of]]
    more = _table_options(model) if of == "tables" else []
    return Form(
        "fit",
        "Fit a model to a file and save it",
        [*usual, *more, *estimator_options(model)],
        example=_EXAMPLES.get(model, _EXAMPLE),
        notes=_NOTES_OF_TABLES if of == "tables" else _NOTES,
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
            "format", one_of(FORMATS),
            "of the table of scores on stdout (default table)",
            metavar="{" + ",".join(FORMATS) + "}",
        ),
    ]  # fmt: skip


def _table_options(model: str) -> list[Option]:
    """Which columns are read."""
    ignore = Option(
        "ignore", columns, "columns to leave out, such as names: --ignore id --ignore url",
        metavar="COLUMN", many=True,
    )  # fmt: skip
    if model == "table":
        return [ignore]
    response = Option(
        "response", column, "the column to predict from the others", metavar="COLUMN",
        required=True,
    )  # fmt: skip
    return [response, ignore]


def run(chosen: Any) -> int:
    """Fit, save, print scores beside baselines."""
    from exfam.cli.output import deliver, destination
    from exfam.cli.places import check_checkpoint, check_model_place, check_room, save_or_keep
    from exfam.training.ranks import is_main_rank

    to = destination(chosen.format, None)
    check_model_place(chosen.output, overwrite=chosen.overwrite)
    check_checkpoint(chosen.checkpoint)
    estimator = _build_estimator(chosen)
    estimator._check_parameters()
    work = _WORK[MODELS[chosen.model].reads](estimator, chosen)
    # On a terminal at once; elsewhere after success, so that an error is the only line.
    say = _Notes(at_once=sys.stderr.isatty())
    say(f"{chosen.file}: {work.told}")
    check_room(Path(chosen.output), _n_numbers(estimator, work.train))
    started = time.perf_counter()
    with work.telling:
        estimator.fit(*work.given, validation=work.validation, checkpoint=chosen.checkpoint)
    seconds = time.perf_counter() - started
    status = _interrupted(estimator, say)
    if is_main_rank():
        save_or_keep(estimator, chosen.output, overwrite=chosen.overwrite)
        say(f"saved in {chosen.output}")
        try:
            table, notes = work.compared(estimator, work.train, work.held_out, seconds=seconds)
        except ExfamError as error:
            raise ExfamError(f"{error} The model is saved in {chosen.output}.") from error
        say(*notes)
        say.tell_all()
        deliver(table, to)
    return status


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
    """Lines for the reader, told at once or all together."""

    def __init__(self, *, at_once: bool) -> None:
        self.at_once = at_once
        self.lines: list[str] = []

    def __call__(self, *lines: str) -> None:
        self.lines += lines
        if self.at_once:
            self.tell_all()

    def tell_all(self) -> None:
        from exfam.cli.sources import tell

        for line in self.lines:
            tell(line)
        self.lines = []


def _build_estimator(chosen: Any) -> Any:
    """The estimator with the parameters that were chosen.

    Raises ExfamError for a family that there is not.
    """
    from exfam.cli.families import families_from_words, family_from_words

    model = MODELS[chosen.model]
    parameters = {}
    for option in estimator_options(chosen.model):
        value = getattr(chosen, option.name)
        if value is not None or option.default is not None:
            parameters[option.name] = value
    if parameters.get("families"):
        parameters["families"] = families_from_words(parameters["families"])
    # A histogram of a table's response is no family before its bins are known.
    own = ("auto", "binned") if model.reads == "tables" else ()
    if "family" in parameters and parameters["family"] not in own:
        parameters["family"] = family_from_words(parameters["family"])
    return getattr(importlib.import_module(model.module), model.name)(**parameters)


@dataclass(frozen=True, eq=False)
class _Work:
    """What `fit` takes, the groups or rows that scores are of, and what was read, in words.

    `compared`: makes the table of scores
    `telling`: within it, errors of the fit tell files and options
    """

    given: tuple[Any, ...]
    validation: Any
    train: Any
    held_out: Any
    told: str
    compared: Callable[..., Any]
    telling: AbstractContextManager[None] = field(default_factory=nullcontext)


def _work(estimator: Any, chosen: Any) -> _Work:
    from exfam.cli.scoreboard import scoreboard
    from exfam.cli.sources import describe, read_source, reading_options
    from exfam.efa.plan import hold_out_groups

    _know_columns(estimator, chosen)
    columns, options = estimator._columns(), reading_options(chosen)
    groups, facts = read_source(chosen.file, columns, options=options)
    if chosen.validation is None:
        train, held_out = hold_out_groups(
            groups,
            groups.stop > groups.start,
            fraction=float(estimator.validation_fraction),
            seed=int(estimator.seed),
        )
        return _Work((train,), held_out, train, held_out, describe(facts), scoreboard)
    held_out, _ = read_source(
        chosen.validation,
        columns,
        options=options,
        vocabulary=groups.vocabulary,
        unknown=estimator.unknown,
    )
    return _Work((groups,), held_out, groups, held_out, describe(facts), scoreboard)


def _field_work(estimator: Any, chosen: Any) -> _Work:
    """The maps; scores are of those that a fit holds out, the last ones unless others are given."""
    from exfam.cli.fields import describe_field, read_maps
    from exfam.cli.scoreboard import scoreboard
    from exfam.fields.plan import plan_field_fit

    groups, facts = read_maps(estimator, chosen, file=chosen.file)
    validation = None
    if chosen.validation is not None:
        validation, _ = read_maps(estimator, chosen, file=chosen.validation)
    plan = plan_field_fit(estimator, groups, validation=validation, checkpoint=None)
    told = describe_field(facts)
    return _Work((groups,), validation, plan.train, plan.validation, told, scoreboard)


def _table_work(estimator: Any, chosen: Any) -> _Work:
    """The table, its response apart; scores are of rows held out, if there are any."""
    from exfam.cli import tables

    response = getattr(chosen, "response", None)
    train, held_out = tables.read_training_tables(estimator, chosen)
    validation = None if held_out is None else tables.given_of(held_out, response)
    if response is None and validation is not None:
        (validation,) = validation
    return _Work(
        tables.given_of(train, response),
        validation,
        train,
        held_out,
        tables.describe_table(train),
        tables.table_scoreboard,
        telling=tables.errors_of_files(train, *([] if held_out is None else [held_out])),
    )


_WORK = {"groups": _work, "fields": _field_work, "tables": _table_work}


def _know_columns(estimator: Any, chosen: Any) -> None:
    """Columns that are not named are those that a prepared folder was made of.

    Raises ExfamError where there is nothing to be learned.
    """
    from exfam.reading.prepared import is_prepared, prepared_columns

    if is_prepared(chosen.file) and chosen.database is None:
        held = prepared_columns(chosen.file)
        for name, value in ({} if held is None else asdict(held)).items():
            if not getattr(estimator, name, True):
                setattr(estimator, name, value)
    elif estimator.group is not None and estimator.item is None and not estimator.value:
        raise ExfamError("`--item` or `--value` must name columns to learn, got neither.")


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
