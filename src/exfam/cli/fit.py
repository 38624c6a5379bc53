"""`exfam fit` and `exfam fit words`."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from exfam.checks import ExfamError
from exfam.cli.configs import last_given
from exfam.cli.kinds import column, columns, text
from exfam.cli.options import (
    FILE,
    OVERWRITE,
    READING,
    TABLE_FORMATS,
    Form,
    Option,
    choice,
    duplicates,
    output,
)
from exfam.cli.signatures import MODELS, WORD_MODELS, build_estimator, estimator_options

if TYPE_CHECKING:
    from exfam.cli.sorts.base import PlannedFit, Sort

INTERRUPTED = 130
_OF_GROUPS = """--value, --order, --attributes and the like take several columns as --value stars
--value price, or as --value "[stars, price]". A family with arguments: --family
"ordinal(n=5, start=1)"; one for each value column: --family "{stars: ordinal(5), price:
gamma}", with quotes around a family that has commas. Options not given are those of the
estimator; --model latent-factor --help lists those of another model. --print_config
writes all of them as YAML, for --config.

A share of the groups (--validation-fraction) is held out, or --validation FILE is, and
chooses the epoch that is kept. The table has nats per observation there, beside
baselines fitted on the same training groups. Ctrl-C keeps and saves the best epoch so
far.

Values at sites and times have models of their own, such as --model field-efa, whose
columns are --time, --site, --coordinates and --value; there the last maps are held out.

Tables of rows and columns are for --model table-classifier and table-regressor, with a
--response, and --model table, without; --model table-classifier --help lists their options."""
_OF_TABLES = """All columns but the --response are features, of any kind, with missing
cells as they are: an empty cell, NA, NaN or null of a CSV file. Kinds are guessed; --kinds
"{accidents: count, condition: [poor, fair, good]}" says otherwise, with labels in order.
Options not given are those of the estimator. --print_config writes all of them as YAML, for
--config.

The table has nats, and accuracy or R^2, beside those of the response's marginal distribution (which
predicts the most probable label, or the mean): on rows held out (--validation-fraction, or
--validation FILE, which then choose the epoch that is kept), or else on those of training."""
_OF_COMMUNITIES = """FILE has a row for each site. Columns that --species names are species (0
and 1, counts, or shares of cover, empty where they are not known), all others are covariates, but
for --coordinates, --effort and those to --ignore. Options not given are those of the estimator.
--print_config writes all of them as YAML, for --config.

The table says what the network added to the base on sites held out. `exfam score` has the nats of a
species at a site by the share of the other species that is known."""
_OF_EVENTS = """FILE has a row for each event: --time is when it came, --item what it is, and
--value, if any, what was measured. Options not given are those of the estimator. --print_config
writes all of them as YAML, for --config.

The table has the distributions of times that were mixed, and nats of events held out
(--validation-fraction, or --validation FILE), of times and of items; `exfam info` has those of all
that was tried. `exfam predict` has the next event of each stream, `exfam explain` which past
events raised its rate."""
_OF_WORDS = """CORPUS is text in UTF-8, words apart by white space, as a rule one sentence per line:
a file, also .gz or .bz2, or a folder of files; or what prepare_text has prepared. Options not given
are those of the estimator; --model cbow --help and --model pmi --help list those of the others.
--print_config writes all of them as YAML, for --config. To fit another model to a file called
`words`, write ./words.

The table has the mean log-likelihood in nats of the last epoch's training, of a yes or no (with
--likelihood softmax, of a word); higher is better. A factorization has none. Ctrl-C keeps and
saves what is learned so far. `exfam neighbors`, `exfam analogy`, `exfam evaluate words` and
`exfam convert` take the folder."""
_EXAMPLE = """\
exfam fit ratings.csv --group user --order time --item movie --value stars \\
    --family "ordinal(n=5, start=1)" -o model"""
_EXAMPLE_OF_TABLES = "exfam fit cars.csv --model {model} {response}-o model"
_EXAMPLE_OF_COMMUNITIES = (
    "exfam fit sites.csv --model community --species reed --species sedge -o model"
)
_EXAMPLE_OF_EVENTS = """\
exfam fit stays.csv --model events --group patient --time when --item code \\
    --resolution 0.0007 -o model"""
_EXAMPLE_OF_WORDS = """\
exfam fit words corpus.txt -o vectors/
exfam fit words corpus.txt --model skip-gram --tie reflection -o tied/"""
_CORPUS = Option(
    "corpus", text, "the text: a file, a folder of files, or a prepared text",
    metavar="CORPUS", positional=True, required=True,
)  # fmt: skip
_VALIDATION = Option(
    "validation", text, "data to choose the epoch by, instead of a share of FILE", metavar="FILE"
)
_CHECKPOINT = Option(
    "checkpoint", text, "a folder from which a fit that was killed goes on when repeated",
    metavar="FOLDER",
)  # fmt: skip
_ITEM_ATTRIBUTES = Option(
    "item_attributes", text,
    "a file with a row for each item: its label in the --item column, and what is known of it; "
    "exfam recommend --new-items then takes further items",
    metavar="FILE",
)  # fmt: skip
_RESPONSE = Option(
    "response", column, "the column to predict from the others", metavar="COLUMN", required=True
)
_IGNORE = Option(
    "ignore", columns, "columns to leave out, such as names: --ignore id --ignore url",
    metavar="COLUMN", many=True,
)  # fmt: skip
# Models of tables -> the response in an example.
_RESPONSES = {"table-classifier": "sold", "table-regressor": "price"}


class _Help(NamedTuple):
    """What is particular to models of one sort of data."""

    notes: str
    example: str
    data: Sequence[Option]


# The format of dates is a parameter of models of groups.
_OF_FILES = (FILE, _VALIDATION, duplicates("error"), *READING[:2])
_HELP = {
    "groups": _Help(_OF_GROUPS, _EXAMPLE, _OF_FILES),
    "events": _Help(_OF_EVENTS, _EXAMPLE_OF_EVENTS, _OF_FILES),
    "fields": _Help(_OF_GROUPS, _EXAMPLE, _OF_FILES[:2]),
    "tables": _Help(_OF_TABLES, _EXAMPLE_OF_TABLES, _OF_FILES[:2]),
    "communities": _Help(_OF_COMMUNITIES, _EXAMPLE_OF_COMMUNITIES, _OF_FILES[:1]),
    "text": _Help(_OF_WORDS, _EXAMPLE_OF_WORDS, [_CORPUS]),
}


def fit_form(words: Sequence[str]) -> Form:
    """`exfam fit`, of the model that the words choose."""
    return _form("fit", "Fit a model to a file and save it", "MODEL", MODELS, words)


def fit_words_form(words: Sequence[str]) -> Form:
    """`exfam fit words`, of the model that the words choose."""
    title = "Fit word vectors to a text and save them"
    return _form("fit words", title, "VECTORS", WORD_MODELS, words)


def _form(
    command: str, title: str, metavar: str, models: Mapping[str, Any], words: Sequence[str]
) -> Form:
    usual, named = next(iter(models)), last_given("model", words)
    model = named if named in models else usual
    own = _HELP[models[model].reads]
    first, *reading = own.data
    response = f"--response {_RESPONSES[model]} " if model in _RESPONSES else ""
    of_tables = [_RESPONSE, _IGNORE] if response else [_IGNORE]
    return Form(
        command,
        title,
        [
            first,
            output("the folder to save the model in", metavar),
            choice("model", list(models), "which estimator", default=usual),
            _CHECKPOINT,
            OVERWRITE,
            *reading,
            *([_ITEM_ATTRIBUTES] if model == "efa" else ()),
            choice("format", TABLE_FORMATS, "of the table on stdout (default table)"),
            *(of_tables if models[model].reads in ("tables", "communities") else ()),
            *estimator_options(model),
        ],
        run=_run,
        example=own.example.format(model=model, response=response),
        notes=own.notes,
        config=True,
        spoken=f"exfam {command}" if model == usual else f"exfam {command} --model {model}",
    )


def _run(chosen: Any) -> int:
    """Fit, save, print scores beside baselines, or what was learned of words."""
    from exfam.cli.output import deliver, destination, note
    from exfam.cli.sorts import sort_named
    from exfam.cli.writable import check_may_write, check_output_model, check_room, save_or_keep
    from exfam.estimator.record import finding
    from exfam.training.ranks import is_main_rank

    to = destination(chosen.format, None)
    check_output_model(chosen.output, overwrite=chosen.overwrite)
    if chosen.checkpoint is not None:
        check_may_write("--checkpoint", chosen.checkpoint)
    estimator = build_estimator(chosen.model, chosen)
    estimator._check_parameters()
    sort = sort_named((MODELS | WORD_MODELS)[chosen.model].reads)
    assert sort.plan is not None
    # On a terminal at once; elsewhere after success, so that an error is the only line.
    notes: list[str] = []
    say = note if sys.stderr.isatty() else lambda *lines: notes.extend(lines)
    with finding(estimator):
        plan = sort.plan(estimator, chosen)
        say(*plan.description)
        check_room(Path(chosen.output), _n_numbers(estimator, plan.train))
        started = time.perf_counter()
        with plan.errors:
            estimator.fit(*plan.given, **plan.options)
    seconds = time.perf_counter() - started
    status = _interrupted(estimator, say)
    if is_main_rank():
        save_or_keep(estimator, chosen.output, overwrite=chosen.overwrite)
        say(f"saved in {chosen.output}")
        table, outcome = _outcome(sort, estimator, plan, seconds, chosen.output)
        note(*notes, *outcome)
        deliver(table, to)
    return status


def _outcome(
    sort: "Sort", estimator: Any, plan: "PlannedFit", seconds: float, output: str
) -> tuple[Any, list[str]]:
    from exfam.cli import scoreboard

    if sort.comparison is None:
        return sort.summary(estimator) | {"seconds": [seconds]}, []
    try:
        return scoreboard.scoreboard(
            sort.comparison, estimator, plan.train, plan.held_out, seconds=seconds
        )
    except ExfamError as error:
        raise ExfamError(f"{error} The model is saved in {output}.") from error


def _n_numbers(estimator: Any, train: Any) -> int:
    """About how many numbers the fitted model will have, all members together.

    Two vectors per item, in each layer four matrices between elements and heads, three of the
    network beside attention; with a base a third vector per item, and a number for each pair of
    items.
    """
    from exfam.efa.defaults import DEFAULTS

    models_items = getattr(estimator, "parts", "values") != "values"
    has_base = models_items and getattr(estimator, "base", "none") != "none"
    is_causal = has_base and estimator.direction == "causal" and estimator.value is None
    kind = "sequences" if is_causal else "sets"

    def chosen(name: str, default: int) -> int:
        value = getattr(estimator, name, default)
        if value is None and name in DEFAULTS:
            value = getattr(DEFAULTS[name], kind)
        return value if isinstance(value, int) else default

    dim, n_items = chosen("embed_dim", chosen("dim", 1)), getattr(train, "n_items", 0)
    of_items = (3 if has_base else 2) * n_items * dim
    of_pairs = 0
    if has_base:
        from exfam.efa.base.fit_ridge import MOST_COVERED  # which brings torch

        of_pairs = min(n_items, MOST_COVERED) ** 2
    of_layers = 4 * chosen("n_layers", 0) * dim * chosen("n_heads", 1) * chosen("head_dim", 1)
    width = chosen("context_hidden_dim", 0)
    of_context = width * (2 * dim + width)
    return (of_items + of_pairs + of_layers + of_context) * chosen("ensemble", 1)


def _interrupted(estimator: Any, say: Callable[..., None]) -> int:
    """The exit status; raises KeyboardInterrupt if no epoch was completed before Ctrl-C."""
    histories = getattr(estimator, "histories_", [])
    if not histories or not histories[-1].interrupted:
        return 0
    if not histories[-1].rows:
        if len(histories) == 1:
            raise KeyboardInterrupt("before the first epoch ended")
        # The last member of an ensemble has learned nothing worth keeping.
        histories.pop(), estimator.members_.pop()
    is_of_words = hasattr(estimator, "vectors_")
    kept = "what was learned so far is kept" if is_of_words else "the best weights so far are kept"
    say(f"interrupted: {kept}")
    return INTERRUPTED
