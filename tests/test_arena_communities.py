"""The arena's communities: known shares, no species sees itself, settings by validation."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.arena.communities.data import in_folds, wide
from benchmarks.arena.communities.judge import SHARES, nats_of, sums, with_known
from benchmarks.arena.contenders.communities import boosting, regressions
from benchmarks.arena.contenders.communities.regressions import designer, regress
from benchmarks.arena.kinds.communities import KIND, ants, simulated
from benchmarks.arena.results import fit_and_judge, read_rows
from benchmarks.arena.tables import describe, headers, table
from sklearn.linear_model import LogisticRegression

from exfam.tables.community import community_fit

DATA = simulated()
NAMES = [name for name in KIND.contenders if name != "community"]


@pytest.fixture(autouse=True)
def short_fits(monkeypatch):
    monkeypatch.setattr(community_fit, "RANGES", (1.0,))
    monkeypatch.setattr(community_fit, "SCALES", (1.0,))
    monkeypatch.setattr(boosting, "ROUNDS", 25)
    monkeypatch.setattr(boosting, "SETTINGS", boosting.SETTINGS[:1])
    monkeypatch.setattr(regressions, "PENALTIES", (0.1, 0.01))
    monkeypatch.setattr(regressions, "OF_OTHERS", (0.03,))


def test_shares_are_known_alike_for_all():
    for share in SHARES:
        sites = with_known(DATA.test, share)
        assert (sites.known.sum(1) == round(10 * share)).all()
        np.testing.assert_array_equal(sites.known, with_known(DATA.test, share).known)
        np.testing.assert_array_equal(np.isnan(sites.shown()), ~sites.known)
    fewer, more = (with_known(DATA.test, share).known for share in (0.25, 0.75))
    assert (fewer <= more).all()


@pytest.mark.parametrize("name", NAMES)
def test_no_contender_sees_the_species_it_predicts(name):
    contender = KIND.contenders[name]
    if contender.needs is not None:
        pytest.importorskip(contender.needs)
    fitted = KIND.judging.finished(contender.fit(DATA, 0), DATA)
    sites = with_known(DATA.test, 0.75)
    before = np.array(fitted.predict(sites))
    assert before.shape == sites.present.shape and ((before > 0) & (before < 1)).all()
    present = sites.present.copy()
    present[:, 4] = 1 - present[:, 4]
    after = np.array(fitted.predict(replace(sites, present=present)))
    np.testing.assert_allclose(after[:, 4], before[:, 4], atol=1e-12)
    sees_others = name in ("community-base", "logistic-others", "lightgbm")
    assert (np.abs(after - before).max() > 1e-4) == sees_others


def test_regressions_are_those_of_scikit_learn():
    columns = designer(DATA.train.covariates, squares=True)(DATA.train.covariates)
    weight = regress(columns, DATA.train.present, np.full(4, 0.03))
    for s in (0, 7):
        witness = LogisticRegression(C=1 / (0.03 * len(columns)), tol=1e-8, max_iter=1000)
        witness.fit(columns, DATA.train.present[:, s])
        np.testing.assert_allclose(weight[:-1, s], witness.coef_[0], atol=1e-3)


def test_sums_are_of_sites_and_shares():
    fitted = KIND.contenders["prevalence"].fit(DATA, 0)
    result = sums(fitted, DATA)
    sites = with_known(DATA.test, 0.5)
    expected = nats_of(fitted.predict(sites), sites).sum(1)
    np.testing.assert_allclose(result["nats_50"], expected, atol=1e-4)
    np.testing.assert_allclose(result["nats"], expected, atol=1e-4)
    assert set(result["elements"]) == {10.0}


def test_tables_have_a_column_for_each_share(tmp_path):
    name = "simulated_communities"
    for contender in ("community-base", "prevalence"):
        fit_and_judge(KIND, name, contender, 0, folder=tmp_path)
    rows = read_rows(tmp_path)
    assert {"0 % known", "100 % known"} <= set(headers(KIND))
    cells = table(rows, KIND, name)
    assert all(len(row) == len(headers(KIND)) for row in cells)
    assert cells[0][0] == "Community(correction=False)"
    assert "each" not in describe(rows, KIND, name)[:5]


def test_files_of_the_suite_are_split_as_they_say():
    try:
        folds = in_folds("eucalypts")
    except ValueError:
        pytest.skip("EXFAM_DATA has no suite")
    assert len(folds.splits) == 5 and folds.n_items == 12
    assert sum(len(data.test) for data in folds.splits) == 458
    assert len(folds.splits[0].both) + len(folds.splits[0].test) == 458
    _, species, side, _ = wide("norberg_trees")
    assert len(species) == 63 and side == ["x1", "x2", "x3"]
    data = ants()
    assert data.train.covariates["year"].max() == 2003 < 2006 <= data.test.covariates["year"].min()
