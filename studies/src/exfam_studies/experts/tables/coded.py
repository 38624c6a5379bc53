"""Tasks on tables of codes, tables 1 and 2 of the paper, and what it prints there."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from exfam_studies.common.fits import Contender
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Key, Measured
from exfam_studies.common.rows import Row
from exfam_studies.experts.tables import fits
from exfam_studies.experts.tables.data import TableShift
from exfam_studies.experts.tables.models import OURS, coded_models
from exfam_studies.experts.tables.peers import fit_reference_tables

# How rows call the rules by which a code is predicted.
RULES = {"argmax": "argmax", "rounded": "mean"}
# What the paper's figures are of.
PAPER_RULE, PAPER_BINS = "argmax", "pooled"
METRICS = ("accuracy", "mse")
# Simulated task -> columns that generate y, their noise, their correlation in training.
SIMULATED: Mapping[str, Mapping[str, Any]] = {
    f"simulation-{n}-{noise:g}-{corr:g}": {"n_informative": n, "noise": noise, "corr": corr}
    for n, noise, corr in itertools.product((1, 5), (0.0, 0.5, 1.5), (0.1, 0.9))
}
# Its models, as ours are called; ATN is the attention that masked tables are.
_MODELS = (
    "logistic-regression", "random-forest-tuned", "gradient-boosting-tuned", "mlp-tuned",
    "reference",
)  # fmt: skip
# Of each simulated task, accuracy and squared error.
_SIMULATED = (
    ((0.388, 0.409, 0.413, 0.323, 0.404), (3.015, 2.694, 2.730, 4.059, 2.941)),
    ((0.313, 0.298, 0.350, 0.237, 0.389), (5.163, 9.331, 4.855, 7.911, 3.078)),
    ((0.345, 0.361, 0.366, 0.292, 0.359), (3.416, 3.201, 3.123, 4.704, 3.281)),
    ((0.270, 0.253, 0.299, 0.202, 0.306), (5.955, 10.106, 6.070, 8.123, 4.465)),
    ((0.250, 0.243, 0.253, 0.204, 0.252), (5.725, 5.685, 5.415, 7.199, 5.594)),
    ((0.169, 0.158, 0.172, 0.142, 0.170), (8.942, 12.340, 9.837, 9.874, 7.339)),
    ((0.250, 0.207, 0.244, 0.306, 0.419), (5.333, 8.498, 5.967, 2.814, 1.521)),
    ((0.162, 0.150, 0.156, 0.169, 0.392), (5.674, 10.101, 8.858, 7.842, 1.633)),
    ((0.227, 0.173, 0.214, 0.252, 0.318), (6.021, 10.236, 6.844, 4.056, 2.605)),
    ((0.154, 0.133, 0.153, 0.151, 0.269), (6.118, 10.427, 8.283, 7.884, 2.355)),
    ((0.167, 0.099, 0.157, 0.165, 0.171), (9.159, 16.154, 9.538, 8.313, 8.316)),
    ((0.125, 0.108, 0.114, 0.118, 0.133), (8.410, 10.409, 10.110, 9.966, 6.501)),
)
_AUTOMPG = {
    "logistic-regression": (0.657, 0.343),
    "random-forest-tuned": (0.721, 0.279),
    "gradient-boosting-tuned": (0.657, 0.343),
    "mlp-tuned": (0.700, 0.300),
    "category-embedding": (0.764, 0.236),
    "ft-transformer": (0.707, 0.293),
    "tab-transformer": (0.707, 0.293),
    "autoint": (0.364, 0.636),
    "tabnet": (0.600, 0.486),
    "reference": (0.793, 0.207),
}
# Task -> model -> metric -> figure of its most probable code, with pooled bins.
PAPER: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "autompg": {model: dict(zip(METRICS, pair, strict=True)) for model, pair in _AUTOMPG.items()},
    **{
        task: {
            model: {"accuracy": accuracy, "mse": mse}
            for model, accuracy, mse in zip(_MODELS, accuracies, errors, strict=True)
        }
        for task, (accuracies, errors) in zip(SIMULATED, _SIMULATED, strict=True)
    },
}


@dataclass(frozen=True, eq=False)
class CodedTask:
    """A task with one kind of bins and the usual number of fits.

    `tables`: the table, of a `seed` where seeds have tables of their own (`resampled`)
    """

    name: str
    bins: str
    tables: Callable[..., TableShift]
    usual: int
    options: Options
    resampled: bool = True

    @property
    def label(self) -> str:
        return f"{self.name} {self.bins}"

    def models(self) -> Mapping[str, Contender]:
        return coded_models(fast=self.options.fast)

    def together(self, name: str) -> Contender | None:
        """What is fitted to several data sets at once: the paper's model."""
        if name != "reference" or not self.resampled:
            return None
        return replace(self.models()[name], fit=fit_reference_tables)

    def keys(self, name: str) -> list[Key]:
        """One for each data set, or for each seed where chance plays a part."""
        model, n = self.models()[name], self.options.n_seeds(self.usual)
        if self.resampled:
            n = min(n, model.most_fits or n)
        elif not model.chance:
            n = 1
        return [Key((self.name, self.bins, name), number) for number in range(n)]

    def table(self, key: Key) -> TableShift:
        return self.tables(seed=key.seed) if self.resampled else self.tables()

    def losses(self, fitted: fits.Fitted, table: TableShift, key: Key) -> Mapping[str, np.ndarray]:
        """The mean of each loss: rows are not compared one by one."""
        losses = fits.row_losses(
            fitted.predict(table.test), table.test_y, table=table, names=fits.CODED
        )
        return {name: rows.mean(keepdims=True) for name, rows in losses.items()}

    def model_rows(self, name: str, results: Sequence[Measured]) -> list[Row]:
        """Accuracy and squared error of both rules, and nats, over the data sets."""
        model = self.models()[name]
        row, rows = replace(self._row(name), n_configurations=model.n_configurations), []
        for (rule, called), metric in itertools.product(RULES.items(), METRICS):
            is_paper = (called, self.bins) == (PAPER_RULE, PAPER_BINS)
            paper = PAPER[self.name].get(name, {}).get(metric) if is_paper else None
            settings = {**row.settings, "rule": called}
            named = replace(row, metric=metric, settings=settings, paper=paper)
            rows.append(_with_spread(named, model, results, f"{metric} {rule}"))
        nats = _with_spread(replace(row, metric="nats"), model, results, "nats")
        if nats.value is None:
            mixed = np.mean([result.arrays["nats-mixed"][0] for result in results])
            nats = replace(nats, note=f"{nats.note}; {mixed:.3f} with 0.1 % uniform mixed in")
        return [*rows, nats]

    def further_rows(self, results: fits.Results) -> list[Row]:
        """Differences on the data sets of both models, and the paper's figures of other models."""
        rows = []
        for name, metric in itertools.product(results if self.resampled else (), METRICS):
            pairs = fits.pairs_of(results.get(OURS[0], ()), results[name])
            if name != OURS[0] and pairs:
                settings = {"bins": self.bins, "rule": "mean", "against": name}
                row = replace(self._row(OURS[0]), settings=settings, metric=f"minus-{metric}")
                row, _ = fits.difference_row(row, pairs, f"{metric} rounded")
                rows.append(fits.with_error(row, (row.sd or 0.0) / math.sqrt(len(pairs))))
        for name, figures in PAPER[self.name].items() if self.bins == PAPER_BINS else ():
            row = replace(self._row(name), note="the paper's own figure")
            row = replace(row, settings={**row.settings, "rule": PAPER_RULE})
            if name not in self.models():
                rows += [replace(row, metric=metric, paper=p) for metric, p in figures.items()]
        return rows

    def not_installed(self, name: str) -> Row:
        return replace(self._row(name), metric="accuracy", note="not installed")

    def _row(self, model: str) -> Row:
        return Row(task=self.name, model=model, settings={"bins": self.bins}, metric="")


def _with_spread(row: Row, model: Contender, results: Sequence[Measured], name: str) -> Row:
    whole = fits.loss_row(row, results, name)
    if whole.sd is not None:
        return replace(whole, note=f"standard error {whole.sd / math.sqrt(len(results)):.4f}")
    return whole if model.chance else replace(whole, n_seeds=None)
