"""Tasks on tables of codes: the paper's tables 1 and 2."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from exfam_studies.common.fits import Contender
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Kept, Key
from exfam_studies.common.rows import Row
from exfam_studies.experts.tables.fits import (
    Losses,
    Results,
    difference_row,
    loss_row,
    pairs_of,
    with_error,
)
from exfam_studies.experts.tables.models import OURS, coded_models
from exfam_studies.experts.tables.paper import PAPER, paper_figures
from exfam_studies.experts.tables.predictions import CODED, Fitted, row_losses
from exfam_studies.experts.tables.public import TableShift
from exfam_studies.experts.tables.reference import fit_reference_tables

# How rows call the rules by which a code is predicted.
RULES = {"argmax": "argmax", "rounded": "mean"}
# What the paper's figures are of.
PAPER_RULE, PAPER_BINS = "argmax", "pooled"


@dataclass(frozen=True, eq=False)
class CodedTask:
    """A task with one kind of bins, its tables by number, and the usual number of fits.

    `resampled`: whether each number has its own tables; it is only the seed of the fits otherwise
    """

    name: str
    bins: str
    tables: Callable[[int], TableShift]
    usual: int
    options: Options
    resampled: bool = True

    @property
    def label(self) -> str:
        """The task and its bins."""
        return f"{self.name} {self.bins}"

    def models(self) -> Mapping[str, Contender]:
        """All models of codes."""
        return coded_models(fast=self.options.fast)

    def together(self, name: str) -> Callable[..., Sequence[Fitted]] | None:
        """The paper's model is fitted to several data sets at once."""
        return fit_reference_tables if name == "reference" and self.resampled else None

    def keys(self, name: str) -> list[Key]:
        """One for each data set, or for each seed where chance plays a part."""
        model, n = self.models()[name], self.options.n_seeds(self.usual)
        if self.resampled:
            n = min(n, model.most_fits or n)
        elif not model.chance:
            n = 1
        return [Key((self.name, self.bins, name), number) for number in range(n)]

    def table(self, key: Key) -> TableShift:
        """The table of that number."""
        return self.tables(key.seed)

    def losses(self, fitted: Fitted, table: TableShift, key: Key) -> Losses:
        """The mean of each loss: rows are not compared one by one."""
        losses = row_losses(fitted.predict(table.test), table.test_y, table=table, names=CODED)
        return {name: rows.mean(keepdims=True) for name, rows in losses.items()}

    def model_rows(self, name: str, results: Sequence[Kept]) -> list[Row]:
        """Accuracy and squared error of both rules, and nats, over the data sets."""
        if not results:
            return []
        model = self.models()[name]
        row = replace(self._row(name), n_configurations=model.n_configurations)
        rows = []
        for rule, called in RULES.items():
            for metric in ("accuracy", "mse"):
                is_paper = (called, self.bins) == (PAPER_RULE, PAPER_BINS)
                paper = paper_figures(self.name, name).get(metric) if is_paper else None
                settings = {**row.settings, "rule": called}
                named = replace(row, metric=metric, settings=settings, paper=paper)
                rows.append(_with_spread(named, model, results, f"{metric} {rule}"))
        nats = _with_spread(replace(row, metric="nats"), model, results, "nats")
        if nats.value is None:
            mixed = np.mean([result.arrays["nats-mixed"][0] for result in results])
            nats = replace(nats, note=f"{nats.note}; {mixed:.3f} with 0.1 % uniform mixed in")
        return [*rows, nats]

    def further_rows(self, results: Results) -> list[Row]:
        """Differences on the data sets of both models, and the paper's figures of other models.

        Metrics "minus-accuracy" and "minus-mse" of the rule "mean" are ours less theirs: means over
        data sets with their sd, and in words how many standard errors from 0.
        """
        rows = []
        for name, theirs in results.items() if self.resampled else ():
            pairs = pairs_of(results.get(OURS[0], ()), theirs)
            if name == OURS[0] or not pairs:
                continue
            for metric in ("accuracy", "mse"):
                settings = {"bins": self.bins, "rule": "mean", "against": name}
                row = replace(self._row(OURS[0]), settings=settings, metric=f"minus-{metric}")
                row, _ = difference_row(row, pairs, f"{metric} rounded")
                rows.append(with_error(row, (row.sd or 0.0) / math.sqrt(len(pairs))))
        if self.bins == PAPER_BINS:
            settings, note = {"bins": PAPER_BINS, "rule": PAPER_RULE}, "the paper's own figure"
            rows += [
                replace(self._row(model), settings=settings, metric=metric, paper=figure, note=note)
                for model in PAPER[self.name]
                if model not in self.models()
                for metric, figure in paper_figures(self.name, model).items()
            ]
        return rows

    def not_installed(self, name: str) -> Row:
        """One row, of the accuracy."""
        return replace(self._row(name), metric="accuracy", note="not installed")

    def _row(self, model: str) -> Row:
        return Row(task=self.name, model=model, settings={"bins": self.bins}, metric="")


def _with_spread(row: Row, model: Contender, results: Sequence[Kept], name: str) -> Row:
    """The row of a loss, with its standard error in words; without seeds where all are alike."""
    whole = loss_row(row, results, name)
    if whole.sd is not None:
        return replace(whole, note=f"standard error {whole.sd / math.sqrt(len(results)):.4f}")
    return whole if model.chance else replace(whole, n_seeds=None)
