import contextlib
import io

import numpy as np
import pytest

from exfam import EFA, load
from exfam.checks import ExfamError
from exfam.cli import demonstration as demo
from exfam.simulators import simulate_ratings


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A tiny demonstration: its folder, its results and what it printed."""
    out = tmp_path_factory.mktemp("demo") / "out"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        results = demo.run(out=out, n_users=120, max_epochs=1)
    return out, results, printed.getvalue()


def test_the_table_shows_every_model_and_the_best_possible(ran):
    out, results, printed = ran
    for outcome in ["test MSE", "above Bayes", "validation", "nats", "paper's MSE", "CPU s"]:
        assert outcome in printed
    for figure in ["Bayes-optimal", "1.038", "2.636", "1.033", "4.519"]:
        assert figure in printed
    assert all(f"{result.mse:.4f}" in printed for result in results)
    assert str(out / "report.html") in printed


def test_the_saved_model_predicts_what_the_fitted_one_did(ran):
    out, results, _ = ran
    first = results[0]
    assert (first.name, first.direction) == ("EFA", "bidirectional")
    assert isinstance(first.model, EFA)
    np.testing.assert_array_equal(
        load(out / "model").predict(demo.draw_ratings(0, n_users=120).test), first.predicted
    )


def test_the_page_has_its_pictures(ran):
    out, _, _ = ran
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg ") == 2
    for title in ["Attention of one user", "Predicted against true means"]:
        assert title in page


def test_seed_0_is_the_draw_of_the_paper_and_others_differ():
    draw = demo.draw_ratings(0, n_users=40)
    whole = simulate_ratings(40, seed=42).values["value"]
    parts = [part.values["value"][part.elements()] for part in (draw.train, draw.validation)]
    parts.append(draw.test.values["value"][draw.test.elements()])
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    other = demo.draw_ratings(1, n_users=40)
    assert not np.array_equal(other.train.values["value"], whole)


def test_a_negative_seed_is_refused():
    with pytest.raises(ExfamError, match="`seed` must be"):
        demo.draw_ratings(-1)


def test_figures_are_those_of_the_models(ran):
    _, results, _ = ran
    test = demo.draw_ratings(0, n_users=120).test
    ratings = test.values["value"][test.elements()]
    for result in results:
        assert result.mse == pytest.approx(np.mean((ratings - result.predicted) ** 2))
        # A normal law of variance 1: the exact log-likelihood follows from the error.
        nats = -0.5 * (np.log(2 * np.pi) + result.mse)
        assert result.nats == pytest.approx(nats, abs=1e-5)
