"""The store of results: what is kept is what was measured."""

import numpy as np
import pytest

from exfam.checks import DataError
from exfam_studies.common.kept import Key, Measured, Store, kept_seeds, metric_rows
from exfam_studies.common.rows import Row

KEY = Key(("cbow", "dim-30"), 1)


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


def test_without_a_folder_results_live_as_long_as_the_store():
    store = Store()
    assert store.get(KEY) is None
    assert store.measured(KEY, measured) is store.get(KEY)
    assert Store().get(KEY) is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"figures": {}, "cpu_seconds": 1}'])
def test_a_damaged_file_is_named(tmp_path, content):
    path = tmp_path / KEY.path
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(DataError, match=r"`folder` must hold results as they were .*01\.json"):
        Store(tmp_path).get(KEY)


def test_rows_are_over_seeds_and_need_the_figure_of_every_seed():
    values = [1.0, 3.0]

    def measure(seed):
        figures = {"nats": values[seed], "validation-nats": 2.0} | ({} if seed else {"mse": 1.0})
        return Measured(figures, details={"steps": 7 + 2 * seed})

    kept = kept_seeds(Store(), ("a",), 2, measure)
    nats, mse = metric_rows(Row(task="t", model="a", metric=""), kept)
    assert (nats.value, nats.validation, nats.n_seeds, nats.steps) == (2.0, 2.0, 2, 8)
    assert nats.cpu_seconds >= 0 and (mse.value, mse.n_seeds) == (None, 2)
    assert [row.metric for row in metric_rows(nats, kept, ["mse"])] == ["mse"]
