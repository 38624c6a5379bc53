"""Runs an experiment: its rows, their table, their JSON, their pictures."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from exfam.checks import check_choice, check_positive
from exfam.training.optimizer import processor_threads
from exfam_studies.common.experiments import EXPERIMENTS
from exfam_studies.common.printed import print_rows
from exfam_studies.common.provenance import this_run
from exfam_studies.common.rows import Row, write_rows


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a run of an experiment.

    `seeds`: fits per row; None leaves it to the experiment
    `fast`: a smoke run, whose figures mean nothing
    `only`: tasks to run; none named, all are run
    `out`: folder for pictures; `folder`: where each result is kept, to go on from there
    `corpus`: text that word vectors are fitted to; None for the usual one
    `vectors`: word vectors to use or compare: a file, or a folder of several, and of encoders
    """

    seeds: int | None = None
    fast: bool = False
    only: Sequence[str] = ()
    out: Path | None = None
    folder: Path | None = None
    corpus: Path | None = None
    vectors: Path | None = None

    def __post_init__(self) -> None:
        if self.seeds is not None:
            check_positive("seeds", self.seeds)

    def n_seeds(self, usual: int) -> int:
        """Fits per row: `seeds`, else one in a smoke run, else `usual`."""
        return self.seeds or (1 if self.fast else usual)

    def wants(self, task: str, *, is_long: bool = False) -> bool:
        """Whether to run a task; one of many hours only where it is named."""
        return task in self.only or not (self.only or is_long)


def reproduce(name: str | None, *, options: Options, json: Path | None = None) -> list[Row]:
    """Run an experiment, print its table, write its files, return its rows.

    Raises ExfamError for an unknown experiment or task.
    """
    check_choice("name", name, EXPERIMENTS)
    assert name is not None
    module = importlib.import_module(f"exfam_studies.{EXPERIMENTS[name]}")
    for task in options.only:
        check_choice("only", task, module.TASKS)
    # One thread: the processor time of a row is then that of the work alone.
    with processor_threads(1):
        rows = module.run(options)
    run, settings = this_run(), getattr(module, "parameters", lambda row, _: row.parameters)
    rows = [
        replace(row, run=run, parameters=row.parameters or settings(row, options)) for row in rows
    ]
    print_rows(name, rows)
    if json is not None:
        write_rows(json, name, rows)
    if options.out is not None:
        from exfam_studies.common.pictures import draw_rows

        write_rows(options.out / f"{name}.json", name, rows)
        draw_rows(rows, options.out, experiment=name, plotted=getattr(module, "PLOTTED", {}))
    return rows
