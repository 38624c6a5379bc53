import contextlib
import io

import numpy as np
import pytest

from exfam import EFA, load
from exfam.checks import ExfamError
from exfam.cli import demonstration as demo
from exfam.simulators import simulate_ratings
from report_kinds import ROOM, widest_picture


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A tiny demonstration: its folder, its results and what it printed."""
    out = tmp_path_factory.mktemp("demo") / "out"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        results = demo.run(out=out, n_users=120, max_epochs=1)
    return out, results, printed.getvalue()


def test_table_and_page_show_every_model_the_best_possible_and_pictures(ran):
    out, results, printed = ran
    for word in ["test MSE", "above Bayes", "validation", "nats", "paper's MSE", "CPU s"]:
        assert word in printed
    for figure in ["Bayes-optimal", "1.038", "2.636", "1.033", "4.519", str(out / "report.html")]:
        assert figure in printed
    assert all(f"{result.mse:.4f}" in printed for result in results)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg ") == 4, "two pictures, for wide and for narrow screens"
    assert widest_picture(page) <= ROOM
    assert "Attention of one user" in page and "Predicted against true means" in page


def test_figures_and_the_saved_model_are_those_of_the_fitted_ones(ran):
    out, results, _ = ran
    test = demo.draw_ratings(0, n_users=120).test
    ratings = test.values["value"][test.elements()]
    for result in results:
        assert result.mse == pytest.approx(np.mean((ratings - result.predicted) ** 2))
        # A normal distribution of variance 1: the exact log-likelihood follows from the error.
        nats = -0.5 * (np.log(2 * np.pi) + result.mse)
        assert result.nats == pytest.approx(nats, abs=1e-5)
    first = results[0]
    assert (first.name, first.direction, type(first.model)) == ("EFA", "bidirectional", EFA)
    np.testing.assert_array_equal(load(out / "model").predict(test), first.predicted)


def test_seed_0_is_the_draw_of_the_paper_and_others_differ():
    draw, other = (demo.draw_ratings(seed, n_users=40) for seed in (0, 1))
    whole = simulate_ratings(40, seed=42).values["value"]
    parts = (draw.train, draw.validation, draw.test)
    ratings = [part.values["value"][part.elements()] for part in parts]
    np.testing.assert_array_equal(np.concatenate(ratings), whole)
    assert not np.array_equal(other.train.values["value"], whole)
    with pytest.raises(ExfamError, match="`seed` must be"):
        demo.draw_ratings(-1)
