"""What a saved model answers about a file: `exfam score`, `predict`, `explain`, `recommend`."""

from typing import Any

import numpy as np

from exfam.checks import ExfamError, check_positive
from exfam.cli.kinds import column, labels, number, number_list, text
from exfam.cli.options import DATA, Form, Option, count, switch

_OF_SCORES = """Scores are exact log-likelihoods, in nats, of an observation given its context: the
mean over all targets. Higher is better. Items and each value column add up to the first row.
The perplexity of items is exp(-nats). A bidirectional model's score is a pseudo-log-
likelihood.

Of a model of a field: nats of each observed value given the others on its map, and before;
and the continuous ranked probability score, in the unit of the value, where lower is better.

Of a model of a table: nats of the response given the other cells of its row, and accuracy
of labels or R^2 of numbers; without a response, of each column given the others.

With --train, the data that the model was fitted on, cheap baselines are fitted to them, and
lines on stderr say which is ahead on what the model has not seen.

Of a model of words FILE is text: nats of its words, or of each yes and no of negative
sampling, and the perplexity where the normalizer is exact."""
_OF_PREDICTIONS = """One row for each row of the file: its number (from 0), group and item, then
what is predicted of it given the rest of its group. A model of values predicts means (medians,
if its family has no mean); one of items only, the most probable item.

A model of a field predicts each value given the others on its map, and before: its mean
and its standard deviation, beside the interval or the quantiles that are chosen. A row
of a site that training never saw, without a value, is predicted as well.

A model of a table predicts its response given the other cells of the row, by the rule in
--decision of the fit (a median where the mean is infinite); any other column with --of; all
columns if it has no response. The file need not have the response. --fill writes the table
itself, without missing cells."""
_OF_WEIGHTS = """A row for each observation as center and each of its context that attention looked
at: its weight is the mean over layers and heads, or that of one with --per-head.
"(nothing)" is the learned key that stands for none of the context.

Of a model with a base, rows of part "base" (layer and head 0) have what each item of the
context adds to the score that the base gives to the center, a probability; "(nothing)" is
its score without context, and all rows of a center add up to the score, exactly. With --next
only these, of the item that is recommended first to each group.

Rows of part "base of COLUMN" have what the predicted value is made of: the overall value, the
item, the level of the group, each other value ("Alien = 5"), what the group's order, its
scale and its histogram change, and attention; all rows of a center add up to the prediction.
With --of COLUMN only these, and beside what each adds to the nats of the value.

Of a model of a field: for each value of a map what its predicted mean is made of: what is
normal there and then, what each value around adds ("added", the largest first; "steps_back"
says how many maps before), and attention; all rows of a site and a time add up to the mean.
--groups names times. Of a network alone (--base none), and with --per-head, weights.

Of a model of a table: a row for each row of the file and each of its cells, with what it adds
to each logit of the response, or to a number, its logarithm, its root or its asinh (of the
number in units of the family's bend), beside "(average row)"; "(rest)" is what has no exact
parts, and all rows add up to the prediction. Of an
attention network (--base none) each cell that is there, with its weight, and what it adds to
each logit (of numbers, to the parameters of the distribution); the sums over all cells are
the logits, exactly. "(nothing)" is a row without any known cell."""
_OF_ITEMS = """A causal model predicts the next item of each group, a bidirectional one what else
belongs to it. Probabilities are over the whole catalog. Items of probability 0 are not listed."""


def _respond(command: str, chosen: Any) -> Any:
    """The columns that a model's sort answers about the file; further lines go to stderr."""
    from exfam.cli.output import note
    from exfam.cli.sorts import sort_of
    from exfam.cli.sources import open_model

    model = open_model(chosen)
    sort = sort_of(model, command, chosen)
    if getattr(chosen, "new_items", None) is not None:
        model = _with_items(model, chosen.new_items)
    data, description = sort.read(model, chosen, file=chosen.file)
    columns, lines = sort.answers[command](model, data, chosen)
    if command == "score" and sort.comparison is not None:
        lines += _comparison(sort, model, data, chosen)
    note(*filter(None, [description, *lines]))
    return columns


def _with_items(model: Any, file: str) -> Any:
    if not hasattr(model, "with_items"):
        raise ExfamError(
            f"`--new-items` needs a model that knows items by their attributes, got a "
            f"{type(model).__name__}. Fit one with exfam fit --item-attributes FILE."
        )
    return model.with_items(file)


def _comparison(sort: Any, model: Any, data: Any, chosen: Any) -> list[str]:
    """How much the fit has seen, and whether a baseline is ahead, in lines."""
    from exfam.cli.scoreboard import compare, seen_notes

    lines = seen_notes(sort.comparison, model, data)
    if chosen.train is None:
        return [*lines, "--train FILE, the data of the fit, says whether a cheap baseline is ahead"]
    train, _ = sort.read(model, chosen, file=chosen.train)
    return lines + compare(sort.comparison, model, train, data)


def _predict(chosen: Any) -> Any:
    given = [name for name in ("interval", "quantiles", "proba", "fill") if getattr(chosen, name)]
    if chosen.fill and chosen.of is not None:
        given.append("of")
    if len(given) > 1:
        raise ExfamError(f"`--{given[0]}` must stand alone, got --{given[1]} beside it.")
    for name in ("interval", "quantiles"):
        for p in np.atleast_1d(getattr(chosen, name) or []).tolist():
            if not 0 < p < 1:
                raise ExfamError(f"`--{name}` must be strictly between 0 and 1, got {p:g}.")
    return _respond("predict", chosen)


def _explain(chosen: Any) -> Any:
    if chosen.top is not None:
        check_positive("--top", chosen.top)
    return _respond("explain", chosen)


SCORE = Form(
    "score",
    "The log-likelihood of a file under a model, in nats per observation",
    [
        *DATA,
        switch("per_row", "log-probabilities row by row instead of their mean"),
        Option(
            "train", text, "what cheap baselines are fitted on, to be compared with", metavar="FILE"
        ),
    ],
    answers=lambda chosen: _respond("score", chosen),
    example="exfam score model ratings.csv\nexfam score model ratings.csv --per-row --format csv",
    notes=_OF_SCORES,
)
PREDICT = Form(
    "predict",
    "Predict every observation of a file given its context",
    [
        *DATA,
        Option("interval", number, "the ends of a central interval of this probability"),
        Option(
            "quantiles", number_list, "these quantiles instead of means: --quantiles 0.1 0.9",
            metavar="P", many=True,
        ),
        switch("proba", "probabilities of all items, or of a column's categories"),
        Option(
            "of", column,
            "with --proba: item, or a value column (default: item, if the model has items); "
            "of a table, any column (default: the response)",
            metavar="COLUMN",
        ),
        switch(
            "fill",
            "of a table: all its columns, missing cells filled in from the others of their row",
        ),
    ],
    answers=_predict,
    example="exfam predict model ratings.csv --interval 0.8\n"
    "exfam predict model ratings.csv --proba --of stars -o stars.parquet",
    notes=_OF_PREDICTIONS,
)  # fmt: skip
EXPLAIN = Form(
    "explain",
    "Which of its context counted for an observation, by attention weights",
    [
        *DATA,
        Option(
            "groups", labels,
            "the groups, or times of a field, to explain: --groups anna --groups bert "
            "(default: all)",
            metavar="LABEL", many=True,
        ),
        Option(
            "rows", labels,
            "of a table: the rows to explain, from 0: --rows 0 --rows 7 (default: all)",
            metavar="N", many=True,
        ),
        Option(
            "of", column,
            "of a table: the column to explain (default: the response); of groups and a base: what "
            "predicted values of this column are made of, in nats too",
            metavar="COLUMN",
        ),
        count("top", "contexts of largest weight for each center (default: all)"),
        switch("next", "of groups and a base: why the first recommendation, context by context"),
        switch("per_head", "weights of each layer and head"),
    ],
    answers=_explain,
    example="exfam explain model ratings.csv --groups anna --top 3\n"
    "exfam explain model ratings.csv --next --top 3\n"
    "exfam explain model ratings.csv --of stars --groups anna",
    notes=_OF_WEIGHTS,
)  # fmt: skip
RECOMMEND = Form(
    "recommend",
    "The most probable further items of each group",
    [
        *DATA,
        count("k", "items a group", default=10, short="-k"),
        Option(
            "groups",
            labels,
            'the groups to recommend to: --groups anna --groups bert, or "[anna, bert]" '
            "(default: all)",
            metavar="LABEL",
            many=True,
        ),
        Option(
            "new_items",
            text,
            "items that the fit lacked, with the columns of its --item-attributes",
            metavar="FILE",
        ),
    ],
    answers=lambda chosen: _respond("recommend", chosen),
    example="exfam recommend model ratings.csv -k 3 --format csv\n"
    "exfam recommend model ratings.csv --groups anna",
    notes=_OF_ITEMS,
)
