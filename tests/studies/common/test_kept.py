"""The store of results, and the files of results that the documentation shows."""

import json

import numpy as np
import pytest

from exfam.checks import DataError
from exfam_studies.common.documentation.pages import KEPT
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Key, Measured, Store, kept_seeds, metric_rows
from exfam_studies.common.provenance import Run
from exfam_studies.common.rows import Row, read_rows
from exfam_studies.common.word_corpus import read_corpus

KEY = Key(("cbow", "dim-30"), 1)
# Estimators of exfam, by the beginning of the names that rows give them.
FITTED = ("efa", "latent-factor", "masked-table", "sgns", "cbow-softmax", "lstm")
DUMP = """<mediawiki xml:lang="en">
<page>
<title>Not this</title>
<text xml:space="preserve">'''Anarchism''' is a [[political philosophy|philosophy]].
The end</text>
</page>
"""


def measured():
    figures = {"nats": 1.5, "mse": None, "validation-nats": 2.5}
    return Measured(figures, {"losses": np.array([1.0, np.inf])}, {"steps": 7}, cpu_seconds=3.0)


def test_a_kept_result_is_read_as_it_was_written(tmp_path):
    kept = Store(tmp_path).measured(KEY, measured)
    again = Store(tmp_path).measured(KEY, lambda: pytest.fail("measured again"))
    assert (tmp_path / "cbow" / "dim-30" / "01.json").is_file()
    assert again.key == KEY and again.figures == kept.figures == measured().figures
    assert again.cpu_seconds == 3.0 and again.details == {"steps": 7}
    np.testing.assert_array_equal(again.arrays["losses"], [1.0, np.inf])
    store = Store()
    assert store.get(KEY) is None
    assert store.measured(KEY, measured) is store.get(KEY)
    for content in ("", "[]", '{"figures": {}, "cpu_seconds": 1}'):
        (tmp_path / KEY.path).write_text(content)
        with pytest.raises(DataError, match=r"`folder` must hold results as they were .*01\.json"):
            Store(tmp_path).get(KEY)


def test_rows_are_over_seeds_and_need_the_figure_of_every_seed():
    def measure(seed):
        figures = {"nats": 1.0 + 2 * seed, "validation-nats": 2.0} | ({} if seed else {"mse": 1.0})
        return Measured(figures, details={"steps": 7 + 2 * seed})

    kept = kept_seeds(Store(), ("a",), 2, measure)
    nats, mse = metric_rows(Row(task="t", model="a", metric=""), kept)
    assert (nats.value, nats.validation, nats.n_seeds, nats.steps) == (2.0, 2.0, 2, 8)
    assert nats.cpu_seconds >= 0 and (mse.value, mse.n_seeds) == (None, 2)
    assert [row.metric for row in metric_rows(nats, kept, ["mse"])] == ["mse"]


@pytest.mark.parametrize("path", sorted(KEPT.rglob("*.json")), ids=lambda path: path.stem)
def test_every_figure_that_the_documentation_shows_has_its_run_and_settings(path):
    if path.parent != KEPT:
        runs = [Run(**json.loads(path.read_text(encoding="utf-8"))["run"])]
    else:
        rows = read_rows(path)
        runs = [row.run for row in rows]
        for row in rows:
            if row.model.startswith(FITTED) and None not in (row.value, row.cpu_seconds):
                assert row.parameters.get("estimator"), (row.task, row.model, row.metric)
    assert all(run.date and run.commit and run.versions and run.machine for run in runs)


@pytest.mark.parametrize("fast", [False, True])
def test_experiments_of_words_take_dumps(tmp_path, fast):
    dump = tmp_path / "enwiki.xml"
    dump.write_text(DUMP)
    options = Options(corpus=dump, folder=tmp_path / "kept", fast=fast)
    first, again = (read_corpus(options, min_count=1) for _ in range(2))
    words = [first.vocabulary.words[code] for code in first.tokens if code >= 0]
    assert words == ["anarchism", "is", "a", "philosophy", "the", "end"]
    assert first.tokens.tolist() == again.tokens.tolist()
