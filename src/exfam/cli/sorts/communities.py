"""Models of communities: files with a row for each site, species and covariates being columns."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.cli.errors import reworded
from exfam.cli.output import number_of, stacked
from exfam.cli.sorts.base import Answer, PlannedFit, Sort
from exfam.cli.sources import chosen_dialect
from exfam.estimator.rules import listed
from exfam.tables.data.table_files import TableFile, read_table_file

_WORDS = {
    "`X`": "`FILE`",
    "`Y`": "`FILE`",
    "`species`": "`--species`",
    "`of`": "`--of`",
    "`ignore`": "`--ignore`",
    "`source`": "`FILE`",
}
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def _described(table: TableFile, file: str) -> str:
    size = f"{number_of(len(table), 'site')}, {number_of(table.frame.num_columns, 'column')}"
    gaps = f"; {number_of(table.n_missing, 'cell')} missing" if table.n_missing else ""
    return f"{file}: {size}{gaps}"


def _read(model: Any, chosen: Any, *, file: str) -> tuple[TableFile, str]:
    """The columns that a fitted model knows, each as in training."""
    community = model.community_
    covariates = community.covariates.covariates
    numbers = [own.name for own in covariates if not own.labels]
    numbers += [*community.species, *community.coordinates]
    numbers += [] if community.effort is None else [community.effort]
    labels = {own.name: own.labels for own in covariates if own.labels}
    with reworded(_WORDS):
        table = read_table_file(
            file,
            names=[*numbers, *labels],
            numbers=numbers,
            labels=labels,
            dialect=chosen_dialect(model.dialect, chosen),
        )
    return table, _described(table, file)


def _plan(estimator: Any, chosen: Any) -> PlannedFit:
    if estimator.species is None:
        raise ExfamError(
            "`--species` must name the columns of species, got none. Name each: --species reed "
            "--species sedge."
        )
    if chosen.checkpoint is not None:
        raise ExfamError("`--checkpoint` must be left out for a model of communities.")
    numbers = [*listed(estimator.species), *listed(estimator.coordinates)]
    with reworded(_WORDS):
        dialect, ignored = chosen_dialect(estimator.dialect, chosen), listed(chosen.ignore)
        table = read_table_file(chosen.file, ignore=ignored, numbers=numbers, dialect=dialect)
    return PlannedFit(
        (table.frame,),
        {},
        None,
        description=(_described(table, chosen.file),),
        errors=reworded(_WORDS),
    )


def _summary(model: Any) -> dict[str, Any]:
    """What was fitted, and what the correction added."""
    return {
        "model": ["community"],
        "species": [len(model.species_)],
        "family": [model.family_],
        "correction": ["not tried" if model.gain_ is None else str(model.gain_)],
    }


def _score(model: Any, table: TableFile, chosen: Any) -> Answer:
    """Nats of a cell at shares of the other species; with --per-row given all, site by site."""
    with reworded(_WORDS):
        if chosen.per_row:
            log_prob = model.predict_dist(table.frame).log_prob(
                table.frame.select([n for n in model.species_ if n in table.frame.column_names])
            )
            sites = np.arange(len(table))
            return {"row": sites, "log_prob": np.nansum(log_prob, axis=1)}, []
        scores = model.scores_by_share(table.frame, shares=_SHARES)
    return {"others_known": np.array(list(scores)), "nats": np.array(list(scores.values()))}, []


def _predict(model: Any, table: TableFile, chosen: Any) -> Answer:
    """Expected values of all species given the known others; with --proba chances of presence."""
    with reworded(_WORDS):
        of = list(model.species_) if chosen.of is None else [chosen.of]
        prediction = model.predict_dist(table.frame)
    if unknown := [name for name in of if name not in model.species_]:
        raise ExfamError(f"`--of` must name a species of the fit, got {unknown[0]!r}.")
    values = prediction.presence if chosen.proba else prediction.mean
    columns = {name: values[:, model.species_.index(name)] for name in of}
    return {"row": np.arange(len(table)), **columns}, []


def _explain(model: Any, table: TableFile, chosen: Any) -> Answer:
    """What each term adds to the logit, or the log of the mean, of each species."""
    rows = _rows(table, chosen.rows)
    with reworded(_WORDS):
        found = model.explain(table.frame.take(rows), of=chosen.of)
    return stacked(_terms(found, rows, chosen.top)), []


def _terms(found: Any, rows: np.ndarray, top: int | None) -> Iterator[dict[str, Any]]:
    for one in found:
        terms = [("(intercept)", one.intercept), ("(correction)", one.correction)]
        terms += [*one.covariates.items(), *one.others.items()]
        terms = sorted(terms, key=lambda term: -abs(term[1]))[:top]
        names, added = zip(*terms, strict=True)
        yield {
            "row": [int(rows[one.site])] * len(terms),
            "species": [one.species] * len(terms),
            "term": list(names),
            "added": np.array(added),
        }


def _rows(table: TableFile, given: list[str] | None) -> np.ndarray:
    last = len(table) - 1
    for word in given or ():
        if not (word.isdecimal() and int(word) <= last):
            raise ExfamError(f"`--rows` must be sites of the file, 0 .. {last}, got {word!r}.")
    return np.arange(len(table)) if given is None else np.array([int(word) for word in given])


def _facts(model: Any) -> dict[str, Any]:
    """What a fitted community holds."""
    arrays = model.community_.arrays()
    return {
        "species": len(model.species_),
        "family": model.family_,
        "numbers": sum(int(array.size) for array in arrays.values()),
    }


COMMUNITIES = Sort(
    name="communities",
    read=_read,
    facts=_facts,
    answers={"score": _score, "predict": _predict, "explain": _explain},
    instead={
        "recommend": "Use `exfam predict --proba`.",
    },
    refused={
        "database": "Write what it holds to a file.",
        "memory_limit": "Tables are held in memory.",
        "date_format": "Write dates as 2024-01-31.",
        "unknown": "Labels that training did not have count as missing.",
        "train": "Models of communities have no baselines.",
        "groups": "Use --rows.",
        "next": "Sites have no next item.",
        "fill": "Use --proba.",
        "interval": "Use `predict_dist` in Python.",
        "quantiles": "Use `predict_dist` in Python.",
    },
    plan=_plan,
    reported=lambda table: table.frame,
    summary=_summary,
)
