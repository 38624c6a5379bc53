"""Every kept figure says what it is of: settings, commit, date, versions and machine."""

import json

import pytest

from exfam_studies.common.documentation.pages import KEPT
from exfam_studies.common.provenance import Run
from exfam_studies.common.rows import read_rows

FILES = sorted(KEPT.glob("*.json"))
# Estimators of exfam, by the beginning of the names that rows give them.
FITTED = ("efa", "latent-factor", "masked-table", "sgns", "cbow-softmax", "lstm")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_row_of_a_kept_file_has_its_run(path):
    for row in read_rows(path)[1]:
        assert row.run is not None, (row.task, row.model)
        assert row.run.date and row.run.commit and row.run.versions and row.run.machine


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_row_of_a_fitted_model_has_its_settings(path):
    for row in read_rows(path)[1]:
        fitted = row.model.startswith(FITTED) and row.value is not None
        if fitted and row.run is not None and row.cpu_seconds is not None:
            assert row.parameters.get("estimator"), (row.task, row.model, row.metric)


def test_the_file_of_a_benchmark_has_its_run():
    for path in (KEPT / "benchmarks").glob("*.json"):
        run = Run(**json.loads(path.read_text(encoding="utf-8"))["run"])
        assert run.date and run.commit and run.versions and run.machine
