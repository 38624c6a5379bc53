"""What `exfam fit --help` says, by the sort of data that the estimator reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from exfam.cli.kinds import column, columns
from exfam.cli.options import Option


@dataclass(frozen=True)
class FitForm:
    """The part of the form that depends on the sort.

    `left_out`: options of reading that are none of a fit, or are parameters of its estimator
    `options`: of a model, options besides
    `example`: of a model, a command line that works
    """

    notes: str
    left_out: Sequence[str]
    example: Callable[[str], str]
    options: Callable[[str], list[Option]] = lambda model: []


_NOTES = """--value, --order, --attributes and the like take several columns as --value stars
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
_NOTES_OF_TABLES = """All columns but the --response are features, of any kind, with missing
cells as they are: an empty cell, NA, NaN or null of a CSV file. Kinds are guessed; --kinds
"{accidents: count, condition: [poor, fair, good]}" says otherwise, with labels in order.
Options not given are those of the estimator. --print_config writes all of them as YAML, for
--config.

The table has nats, and accuracy or R^2, beside those of the response's marginal distribution (which
predicts the most probable label, or the mean): on rows held out (--validation-fraction, or
--validation FILE, which then choose the epoch that is kept), or else on those of training."""

_EXAMPLE = """\
exfam fit ratings.csv --group user --order time --item movie --value stars \\
    --family "ordinal(n=5, start=1)" -o model"""
_RESPONSE = Option(
    "response", column, "the column to predict from the others", metavar="COLUMN", required=True
)
_IGNORE = Option(
    "ignore", columns, "columns to leave out, such as names: --ignore id --ignore url",
    metavar="COLUMN", many=True,
)  # fmt: skip
# Models of tables -> the response in an example; None for one that has none.
_RESPONSES = {"table": None, "table-classifier": "sold"}


def _table_options(model: str) -> list[Option]:
    return [_IGNORE] if _response(model) is None else [_RESPONSE, _IGNORE]


def _table_example(model: str) -> str:
    response = _response(model)
    named = "" if response is None else f"--response {response} "
    return f"exfam fit cars.csv --model {model} {named}-o model"


def _response(model: str) -> str | None:
    return _RESPONSES.get(model, "price")


_UNREAD = ("duplicates", "database", "memory_limit", "date_format")

FIT_FORMS = {
    "groups": FitForm(_NOTES, ("date_format",), lambda model: _EXAMPLE),
    "fields": FitForm(_NOTES, _UNREAD, lambda model: _EXAMPLE),
    "tables": FitForm(_NOTES_OF_TABLES, _UNREAD, _table_example, _table_options),
}
