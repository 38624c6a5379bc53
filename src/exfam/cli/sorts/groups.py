"""Models of groups: reading, fits, scores, baselines."""

import sys
from dataclasses import asdict
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.cli.output import beside, number_of
from exfam.cli.sorts.base import Answer, Baseline, Comparison, Figures, PlannedFit, Sort, sizes
from exfam.cli.sorts.group_answers import explanation_rows, predict_groups, recommend_items
from exfam.cli.sources import (
    describe_rows,
    file_rows,
    read_as_fitted,
    read_source,
    reading_options,
)
from exfam.efa.baselines import Marginal
from exfam.efa.held_out import hold_out_groups, runs_suit
from exfam.efa.latent_factor import LatentFactor
from exfam.efa.plan import choose_parts
from exfam.efa.rankers import Popularity
from exfam.estimator.evaluate import total_nats
from exfam.estimator.gain import gain_sentences
from exfam.families import family_to_config
from exfam.groups import Groups
from exfam.reading.folders import is_prepared
from exfam.reading.prepared import prepared_columns

_SHARED = ("group", "order", "item", "value", "direction", "unknown")


def _plan(estimator: Any, chosen: Any) -> PlannedFit:
    _complete_columns(estimator, chosen)
    columns, reading = estimator._columns(), reading_options(chosen, dialect=estimator.dialect)
    groups, facts = read_source(chosen.file, columns, options=reading)
    if chosen.validation is None:
        items = choose_parts(estimator.parts, groups)[0]
        train, held_out = hold_out_groups(
            groups,
            groups.stop > groups.start,
            fraction=float(estimator.validation_fraction),
            seed=int(estimator.seed),
            items=items,
            in_runs=runs_suit(estimator, items=items),
        )
    else:
        train = groups
        held_out, _ = read_source(
            chosen.validation,
            columns,
            options=reading,
            vocabulary=groups.vocabulary,
            unknown=estimator.unknown,
        )
    options = {"validation": held_out, "checkpoint": chosen.checkpoint}
    if getattr(chosen, "item_attributes", None) is not None:
        options["item_attributes"] = chosen.item_attributes
    description = f"{chosen.file}: {describe_rows(facts)}"
    return PlannedFit((train,), options, train, held_out, (description,))


def _complete_columns(estimator: Any, chosen: Any) -> None:
    """Columns that are not named are those that a prepared folder was made of."""
    if is_prepared(chosen.file) and chosen.database is None:
        held = prepared_columns(chosen.file)
        for name, value in ({} if held is None else asdict(held)).items():
            if not getattr(estimator, name, True):
                setattr(estimator, name, value)
    elif estimator.group is not None and estimator.item is None and not estimator.value:
        raise ExfamError("`--item` or `--value` must name columns to learn, got neither.")


def _facts(model: Any) -> dict[str, Any]:
    families, first, gain = model.schema_.families, model.members_[0], gain_sentences(model)
    return {
        "parts": [name for name in ("item", "value") if getattr(first, f"{name}_part")],
        "items": model.schema_.n_items,
        "families": {name: family_to_config(family) for name, family in families.items()},
        "support": model.support_,
        **({"gain": " ".join(gain)} if gain else {}),
        **({"settings": model.settings_} if hasattr(model, "settings_") else {}),
        **sizes(model),
    }


def mean_parts(parts: dict[str, np.ndarray]) -> tuple[dict[str, float], int]:
    """The mean over all targets of each part's log-probabilities, and the number of targets.

    `parts`: as an estimator's `log_prob_parts` gives them; "item" becomes "items".
    """
    counted = ~np.isnan(total_nats(parts))
    n = int(counted.sum())
    if n == 0:
        raise ExfamError("`FILE` must hold at least one observation to score, got none.")
    means = {_shown_part(name): float(np.nansum(nats[counted]) / n) for name, nats in parts.items()}
    return means, n


def _shown_part(part: str) -> str:
    return "items" if part == "item" else part


def _score(model: Any, groups: Groups, chosen: Any) -> Answer:
    parts = model.log_prob_parts(groups)
    notes = _impossible(parts, groups) + gain_sentences(model)
    if not chosen.per_row:
        return _means(parts), notes
    rows, nats = file_rows(model, groups, chosen), {"nats": total_nats(parts)}
    if len(parts) > 1:
        nats |= {f"nats_{_shown_part(name)}": part for name, part in parts.items()}
    spread = {name: rows.spread(values) for name, values in nats.items()}
    return beside(rows.columns, spread), notes


def _means(parts: dict[str, np.ndarray]) -> dict[str, Any]:
    means, n = mean_parts(parts)
    counts = {_shown_part(name): int((~np.isnan(nats)).sum()) for name, nats in parts.items()}
    nats = {"all": sum(means.values())} | means
    perplexity = [
        # Beyond all numbers where the nats are few: left out.
        float(np.exp(-value)) if name == "items" and value > -700 else np.nan
        for name, value in nats.items()
    ]
    return {
        "part": list(nats),
        "nats": list(nats.values()),
        "targets": [n, *counts.values()],
        "perplexity": np.array(perplexity),
    }


def _impossible(parts: dict[str, np.ndarray], groups: Groups) -> list[str]:
    """How many observations have probability 0, if any."""
    elements = np.flatnonzero(np.isneginf(list(parts.values())).any(axis=0))
    if not len(elements):
        return []
    own = groups.elements()[elements]
    row = int((own if groups.source_row is None else groups.source_row[own]).min())
    return [
        f"{number_of(len(own), 'observation')} of probability 0 under the model, the first at row "
        f"{row}: minus infinity"
    ]


def _notes(model: Any, train: Groups) -> list[str]:
    gain = gain_sentences(model)
    # On a terminal the fit itself has shown it.
    return [] if gain and model.progress and sys.stderr.isatty() else gain


def _figures(model: Any, fitted: Any, groups: Groups) -> Figures:
    return Figures(mean_parts(fitted.log_prob_parts(groups))[0])


def _baselines(model: Any) -> list[Baseline]:
    shared = {name: getattr(model, name) for name in _SHARED} | {"family": model.family_}
    of_values, knows_items = bool(model.schema_.values), bool(model.schema_.n_items)
    rivals: list[tuple[str, Any, str]] = []
    if not isinstance(model, Marginal | Popularity):
        part = ("both" if model._has_items else "values") if of_values else "items"
        support = "hard" if model.support_ == "hard" else "none"
        marginal = shared | {"parts": part, "support": support}
        rivals.append(("Marginal", Marginal(**marginal), "marginal"))
        if of_values and knows_items:
            by_item = Marginal(**marginal, by_item=True)
            rivals.append(("Marginal by item", by_item, "marginal --by-item true"))
    is_levels = isinstance(model, LatentFactor) and model.dim == 0
    if of_values and not is_levels:
        levels = LatentFactor(**shared, parts="values", dim=0, progress=False)
        rivals.append(("Levels", levels, "latent-factor --parts values --dim 0"))
    return [estimator_baseline(name, rival, model=command) for name, rival, command in rivals]


def estimator_baseline(name: str, estimator: Any, *, model: str) -> Baseline:
    """An estimator as a baseline; `model`: what `exfam fit --model` calls it."""

    def fit(train: Groups, validation: Groups | None) -> Any:
        return estimator.fit(train, validation=validation)

    advice = f"use it (--model {model}), or give {{}} more data or other settings"
    return Baseline(name, fit, advice)


GROUPS = Sort(
    name="groups",
    read=read_as_fitted,
    facts=_facts,
    answers={
        "score": _score,
        "predict": predict_groups,
        "explain": explanation_rows,
        "recommend": recommend_items,
    },
    refused={"fill": "It fills the cells of tables.", "rows": "Use --groups."},
    plan=_plan,
    comparison=Comparison("groups", _baselines, _figures, notes=_notes),
)
