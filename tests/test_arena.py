"""The arena of benchmarks: its protocol on simulated data, and its command from start to page."""

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.arena import read
from benchmarks.arena.__main__ import main
from benchmarks.arena.contenders import counts, linear, ours, pairwise, sasrec
from benchmarks.arena.kind import Fitted
from benchmarks.arena.kinds import all_kinds
from benchmarks.arena.protocol import calibrated, context_holds, judge
from benchmarks.arena.results import fit_and_judge, read_rows
from benchmarks.arena.tables import ahead_of_reference, describe, difference, standings, table

from exfam.checks import DataError
from exfam.groups import TARGET, Groups
from exfam.scores.ranking import leave_last_out

KINDS = all_kinds()


@pytest.fixture(scope="module", params=["sets", "sequences"])
def data(request):
    return KINDS[request.param].sources[f"simulated_{request.param}"].read()


def uniform(data):
    return Fitted(lambda groups: np.zeros((groups.n_elements, data.n_items)))


def test_nats_are_of_the_items_that_the_context_lacks(data):
    elements = judge(uniform(data), data.test, data)
    lengths = data.test.lengths
    if data.causal:
        n_seen = np.concatenate([np.arange(length) for length in lengths])
    else:
        n_seen = np.repeat(lengths - 1, lengths)
    assert data.exclude and len(np.unique(n_seen)) > 5
    np.testing.assert_allclose(elements.nats, np.log(data.n_items - n_seen))
    np.testing.assert_allclose(elements.rank, (data.n_items - n_seen + 1) / 2)


def test_ranking_is_of_all_elements_or_of_last_ones(data):
    elements = judge(uniform(data), data.test, data)
    gain = np.where(elements.rank <= 10, 1 / np.log2(1 + elements.rank), 0.0)
    stop = np.cumsum(data.test.lengths)
    sums = {kind: elements.by_group(ranked=kind) for kind in ("all", "last")}
    of_all = np.add.reduceat(gain, stop - data.test.lengths)
    for found in (sums["all"]["ndcg"], *(some["ndcg_of_all"] for some in sums.values())):
        np.testing.assert_allclose(found, of_all, atol=1e-5)
    np.testing.assert_allclose(sums["last"]["ndcg"], gain[stop - 1], atol=1e-5)
    assert set(sums["last"]["ranked"]) == {1.0} and sums["all"]["ranked"] == sums["all"]["elements"]


def test_contexts_hold_other_elements_or_earlier_ones():
    groups = Groups(start=[0, 3], stop=[3, 4], item=[2, 0, 1, 2])
    both = context_holds(groups, 3, causal=False).astype(int)
    causal = context_holds(groups, 3, causal=True).astype(int)
    assert both.tolist() == [[1, 1, 0], [0, 1, 1], [1, 0, 1], [0, 0, 0]]
    assert causal.tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 1], [0, 0, 0]]


def changed(fitted, items, position, other):
    """At which elements of a group outputs change with the item at a position."""
    moved = items.copy()
    moved[position] = other
    before, after = (
        fitted.predict(Groups(start=[0], stop=[len(row)], item=row)) for row in (items, moved)
    )
    return ~np.isclose(before, after, rtol=1e-5).all(axis=1)


def test_pair_weights_are_of_all_other_elements(monkeypatch):
    monkeypatch.setattr(pairwise, "MAX_EPOCHS", 1)
    data = KINDS["sets"].sources["simulated_sets"].read()
    fitted = pairwise.fit_pairwise(data, 0)
    assert changed(fitted, np.arange(5), 2, 30).tolist() == [True, True, False, True, True]


def test_sasrec_sees_earlier_elements_within_its_window(monkeypatch):
    monkeypatch.setattr(sasrec, "MAX_EPOCHS", 1)
    monkeypatch.setattr(sasrec, "TRIED", ((8, 0.0),))
    monkeypatch.setattr(sasrec, "PREDICTED", 3)
    monkeypatch.setattr(sasrec, "EARLIER", 3)
    data = KINDS["sequences"].sources["simulated_sequences"].read()
    fitted = sasrec.fit_sasrec(data, 0)
    items = np.arange(10)
    # Elements 6, 7 and 8 see what comes from element 3 on, and the item before that.
    assert np.flatnonzero(changed(fitted, items, 0, 30)).tolist() == [1, 2, 3, 4, 5]
    assert np.flatnonzero(changed(fitted, items, 2, 30)).tolist() == [3, 4, 5, 6, 7, 8]
    assert np.flatnonzero(changed(fitted, items, 8, 30)).tolist() == [9]


def test_calibration_finds_the_scale_of_the_truth(data):
    """Scores that are log-probabilities a hundred times too large are worth the same again."""
    exact = linear.fit_popularity(data, 0)
    scores = Fitted(lambda groups: 100 * exact.predict(groups), exact=False)
    nats = judge(calibrated(scores, data), data.validation, data).nats.mean()
    assert nats <= judge(exact, data.validation, data).nats.mean() + 1e-6
    assert judge(scores, data.validation, data).nats.mean() > nats + 1


@pytest.mark.parametrize("attention", ["softmax", "none"])
def test_probabilities_of_an_estimator_are_its_own(data, attention):
    options = {"base": "auto", "attention": attention, "max_epochs": 2, "direction": data.direction}
    model = ours.EFA(**options, support="hard", progress=False)
    model.fit(data.train, validation=data.validation)
    fitted = Fitted(lambda groups: ours.log_probs(model, groups, data.n_items))
    nats = judge(fitted, data.test, data).nats
    own = model.log_prob(data.test)
    np.testing.assert_allclose(-nats, own[~np.isnan(own)], rtol=1e-4)


@pytest.mark.parametrize("fit", [counts.fit_markov, counts.fit_windows])
def test_counts_are_distributions_that_see_no_later_item(fit):
    data = KINDS["sequences"].sources["simulated_sequences"].read()
    fitted = fit(data, 0)
    group = data.test[int(np.argmax(data.test.lengths))]
    items = group.item[group.elements()]
    np.testing.assert_allclose(np.exp(fitted.predict(group)).sum(1), 1)
    assert np.flatnonzero(changed(fitted, items, 5, (items[5] + 1) % data.n_items))[0] == 6


def test_the_command_fits_what_is_not_there_and_writes_a_page(tmp_path, monkeypatch):
    kind = KINDS["sets"]
    for contender in ("efa-base", "popularity"):
        fit_and_judge(kind, "simulated_sets", contender, 0, folder=tmp_path)
    path = tmp_path / "simulated_sets" / "efa-base-0.json"
    row = json.loads(path.read_text(encoding="utf-8"))
    assert row["settings"]["parameters"]["attention"] == "none"
    path.with_name("efa-0.json").write_text(json.dumps(row | {"contender": "efa"}))
    monkeypatch.setattr("subprocess.run", lambda *_: pytest.fail("nothing is left to fit"))
    words = ["--only", "simulated_sets", "--contenders", "efa", "efa-base", "popularity"]
    page = tmp_path / "page.md"
    assert main([*words, "--seeds", "1", "--out", str(tmp_path), "--page", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    rows = read_rows(tmp_path)
    assert describe(rows, kind, "simulated_sets") in text
    assert all(" | ".join(cells) in text for cells in table(rows, kind, "simulated_sets"))
    assert page.with_suffix(".svg").is_file()
    same, base, popular = standings(rows, kind, "simulated_sets")
    assert {same.contender, base.contender} == {"efa", "efa-base"}
    assert difference(same, base) == (0.0, 0.0)
    mean, error = difference(popular, base)
    assert mean == pytest.approx(popular.nats - base.nats) and mean > error > 0
    ranked = {"name": "ndcg", "per": "ranked"}
    mean, error = difference(base, popular, **ranked)
    assert mean == pytest.approx(base.mean(*ranked.values()) - popular.mean(*ranked.values()))
    assert 0 < error < 1


def test_who_is_ahead_of_the_reference_is_named_with_the_cause(tmp_path):
    kind, dataset = KINDS["sets"], "simulated_sets"
    for contender in ("efa-base", "popularity"):
        fit_and_judge(kind, dataset, contender, 0, folder=tmp_path)
    rows = read_rows(tmp_path)
    assert ahead_of_reference(rows, kind, dataset) == ""  # the reference did not take part
    best = replace(kind, reference="efa-base")
    assert ahead_of_reference(rows, best, dataset) == ""
    sources = {dataset: replace(kind.sources[dataset], behind="It sees no context.")}
    worst = replace(kind, reference="popularity", sources=sources)
    base, popular = standings(rows, kind, dataset)
    mean, error = difference(popular, base)
    assert ahead_of_reference(rows, worst, dataset).startswith(
        "Ahead of popularity by more than a standard error: in nats "
        f'EFA(attention="none") ({mean:.4f} ± {error:.4f}); in NDCG@10 EFA(attention="none") ('
    )
    assert ahead_of_reference(rows, worst, dataset).endswith(" It sees no context.")


def test_ranked_ones_of_sequences_are_the_targets_of_leave_last_out():
    data = KINDS["sequences"].sources["simulated_sequences"].read()
    groups = leave_last_out(data.test[data.test.lengths > 1])
    own, is_target = groups.item, groups.role == TARGET
    knows_targets = Fitted(lambda _: np.eye(data.n_items)[own] * is_target[:, None])
    found = judge(knows_targets, groups, data).by_group(ranked=data.ranked)
    assert found["ndcg"] == found["ranked"] == [1.0] * len(groups)


def test_a_package_that_is_not_there_is_a_row(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.arena.results.find_spec", lambda name: None)
    row = fit_and_judge(KINDS["sets"], "simulated_sets", "als", 0, folder=tmp_path)
    assert row["missing"] == "not installed"
    assert table(read_rows(tmp_path), KINDS["sets"], "simulated_sets")[0][1] == "not installed"


def test_a_suite_that_is_not_there_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"`EXFAM_DATA` must name .* with suite/suite.json, found"):
        read.suite_rows.__wrapped__()
