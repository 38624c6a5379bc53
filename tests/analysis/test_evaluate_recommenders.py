"""Recommenders judged on hidden items: the measures by their definitions, the protocols, pairs."""

import numpy as np
import pytest

from estimator_cases import fitted_on, make, ratings
from exfam import EASE, ExfamError, ExfamWarning, Groups, Popularity, evaluate_recommenders
from exfam.checks import DataError
from exfam.scores.ranking import choose_hidden, hide_some, rank_items
from exfam.scores.recommenders import ranking_measures

FRAME = ratings(n_users=40, n_movies=9, least=3)
COLUMNS = {"group": "user", "item": "movie"}
GROUPS = Groups.from_frame(FRAME, **COLUMNS)
ORDERED = Groups.from_frame(FRAME, **COLUMNS, order="day")
MODELS = {
    "popular": Popularity(**COLUMNS).fit(GROUPS),
    "EASE": EASE(**COLUMNS, ridge=1.0).fit(GROUPS),
}


def slow_measures(hits, n_hidden):
    """By their definitions, list by list."""
    out = {name: [] for name in ("recall", "precision", "hit", "ndcg", "mrr", "map")}
    for row, n in zip(hits, n_hidden, strict=True):
        k, ranks = len(row), [rank for rank, hit in enumerate(row, 1) if hit]
        out["recall"].append(len(ranks) / n)
        out["precision"].append(len(ranks) / k)
        out["hit"].append(float(bool(ranks)))
        best = sum(1 / np.log2(1 + rank) for rank in range(1, min(n, k) + 1))
        out["ndcg"].append(sum(1 / np.log2(1 + rank) for rank in ranks) / best)
        out["mrr"].append(1 / ranks[0] if ranks else 0.0)
        average = sum(sum(other <= rank for other in ranks) / rank for rank in ranks)
        out["map"].append(average / min(n, k))
    return out


def test_measures_are_those_of_their_definitions():
    random = np.random.default_rng(0)
    hits = random.random((50, 6)) < 0.3
    n_hidden = hits.sum(1) + random.integers(0, 5, 50)
    n_hidden = np.maximum(n_hidden, 1)
    measures, slow = ranking_measures(hits, n_hidden), slow_measures(hits, n_hidden)
    assert list(measures) == list(slow)
    for name, numbers in measures.items():
        np.testing.assert_allclose(numbers, slow[name])
        assert numbers.min() >= 0 and numbers.max() <= 1 and numbers.std() > 0
    perfect = ranking_measures(np.array([[True, True, False]]), np.array([2]))
    assert {name: perfect[name][0] for name in ("recall", "ndcg", "mrr", "map")} == dict.fromkeys(
        ("recall", "ndcg", "mrr", "map"), 1.0
    )


@pytest.mark.parametrize("hide", ["last", "some"])
def test_lists_are_what_is_recommended_to_what_is_shown(hide):
    groups = ORDERED if hide == "last" else GROUPS
    scores = evaluate_recommenders(MODELS, groups, hide=hide, n=2, k=3, seed=1)
    flat = groups.compact()
    last = 2 if hide == "last" else None
    hidden = choose_hidden(flat, last=last, n=2, seed=1)
    labels, model = flat.vocabulary["item"], MODELS["EASE"]
    recall = []
    for start, stop in zip(flat.start, flat.stop, strict=True):
        if hidden[start:stop].any():
            own = np.arange(start, stop)
            shown = labels[flat.item[own[~hidden[start:stop]]]].tolist()
            wanted = set(labels[flat.item[own[hidden[start:stop]]]].tolist())
            found = set(model.recommend([shown], k=3).items[0].tolist())
            recall.append(len(found & wanted) / len(wanted))
    np.testing.assert_allclose(scores.by_group["EASE"]["recall@3"], recall)
    assert len(scores.groups) == len(recall) and scores.n_hidden == hidden.sum()
    if hide == "last":
        assert (hidden[flat.stop - 1] == (flat.lengths > 2)).all()


def test_nats_are_those_of_hidden_items_that_do_not_see_each_other():
    scores = evaluate_recommenders(MODELS, GROUPS, hide="some", share=0.5, seed=3)
    apart = hide_some(GROUPS, share=0.5, seed=3)
    nats = MODELS["EASE"].log_prob_parts(apart)["item"]
    of_target = nats[~np.isnan(nats)]
    target = apart.role[apart.elements()] == 0
    names = np.repeat(apart.group_names, apart.stop - apart.start)[target]
    by_group = [of_target[names == name].mean() for name in scores.groups]
    np.testing.assert_allclose(scores.by_group["EASE"]["nats"], by_group)


def test_one_hidden_item_is_ranked_as_by_rank_items():
    scores = evaluate_recommenders(MODELS, GROUPS, hide="some", n=1, k=2, seed=2)
    ranked = rank_items(MODELS["EASE"], hide_some(GROUPS, n=1, seed=2), k=2)
    table = scores.to_frame("pandas").set_index("model").loc["EASE"]
    assert table["recall@2"] == pytest.approx(ranked.recall.mean)
    assert table["ndcg@2"] == pytest.approx(ranked.ndcg.mean)
    assert table["nats"] == pytest.approx(ranked.nats.mean)
    assert table["hit@2"] == table["recall@2"] and 0 < table["recall@2"] < 1


def test_coverage_popularity_and_novelty_count_what_is_recommended():
    train = GROUPS[:30].compact()
    scores = evaluate_recommenders(MODELS, GROUPS[30:], hide="some", k=1, train=train)
    flat = GROUPS[30:].compact()
    hidden = choose_hidden(flat)
    share = {
        label: np.mean([code in some.compact().item for some in (train[n] for n in range(30))])
        for code, label in enumerate(flat.vocabulary["item"])
    }
    best = []
    for start, stop in zip(flat.start, flat.stop, strict=True):
        shown = flat.item[np.arange(start, stop)[~hidden[start:stop]]]
        best.append(MODELS["EASE"].recommend([flat.vocabulary["item"][shown].tolist()], k=1))
    best = [found.items[0, 0] for found in best]
    overall = scores.overall["EASE"]
    assert overall["coverage@1"] == pytest.approx(len(set(best)) / GROUPS.n_items)
    assert overall["popularity@1"] == pytest.approx(np.mean([share[label] for label in best]))
    novelty = np.mean([-np.log2(share[label]) for label in best])
    assert overall["novelty@1"] == pytest.approx(novelty)
    wanted = [share[label] for label in flat.vocabulary["item"][flat.item[hidden]]]
    assert overall["hidden popularity"] == pytest.approx(np.mean(wanted))
    alone = scores.overall["popular"]
    assert alone["popularity@1"] > overall["popularity@1"] and alone["novelty@1"] < novelty


def test_differences_are_paired_by_groups():
    scores = evaluate_recommenders(MODELS, GROUPS, hide="some", k=2)
    ahead, behind = scores.difference("EASE", "popular"), scores.difference("popular", "EASE")
    for measure, (mean, low, high) in ahead.items():
        gap = scores.by_group["EASE"][measure] - scores.by_group["popular"][measure]
        assert mean == pytest.approx(gap.mean()) and low <= mean <= high
        assert behind[measure].mean == pytest.approx(-mean)
    same = scores.difference("EASE", "EASE")
    assert set(same["nats"]) == {0.0}
    spread = scores.by_group["EASE"]["nats"].std() + scores.by_group["popular"]["nats"].std()
    assert ahead["nats"].high - ahead["nats"].low < 4 * spread / np.sqrt(len(scores.groups))
    with pytest.raises(ExfamError, match="`model` must be one of 'popular', 'EASE', got 'efa'"):
        scores.difference("efa", "EASE")


def test_results_are_tables_and_text():
    scores = evaluate_recommenders(MODELS["EASE"], GROUPS, hide="some", k=2)
    columns = scores.to_dict()
    assert columns["model"].tolist() == ["EASE"] and columns["coverage@2"].shape == (1,)
    estimates = scores.estimates("EASE")
    assert estimates["recall@2"].mean == columns["recall@2"][0] and estimates["nats"].error > 0
    assert scores.to_frame().num_rows == 1 and "the best 2 of 9 items" in repr(scores)
    pairs = evaluate_recommenders(MODELS, FRAME, hide="some").to_frame()
    assert pairs["model"].tolist() == ["popular", "EASE"]


def test_items_that_no_model_knows_are_never_found():
    model = fitted_on(FRAME, "ease")
    best = model.recommend([["a"]], k=1).items[0, 0]
    frame = {"user": ["u", "u", "v", "v"], "movie": ["a", "new", "a", best], "day": [0, 1, 0, 1]}
    with pytest.warns(ExfamWarning, match="never seen"):
        scores = evaluate_recommenders(model, Groups.from_frame(frame, **COLUMNS, order="day"), k=3)
    assert scores.by_group["EASE"]["recall@3"].tolist() == [0.0, 1.0]
    assert np.isnan(scores.by_group["EASE"]["nats"]).tolist() == [True, False]


def test_what_cannot_be_evaluated_says_why():
    with pytest.raises(ExfamError, match="`groups` must be ordered to have last elements"):
        evaluate_recommenders(MODELS, GROUPS)
    with pytest.raises(ExfamError, match="`hide` must be one of 'last', 'some'"):
        evaluate_recommenders(MODELS, GROUPS, hide="first")
    with pytest.raises(ExfamError, match="`share` must be given with hide='some' alone"):
        evaluate_recommenders(MODELS, ORDERED, share=0.2)
    with pytest.raises(ExfamError, match="`models` must hold at least one fitted model"):
        evaluate_recommenders({}, GROUPS)
    with pytest.raises(ExfamError, match="`models` must recommend items, as EFA and EASE do, got"):
        evaluate_recommenders({"mine": object()}, GROUPS)
    values = make("latent-factor", parts="values").fit(FRAME)
    with pytest.raises(ExfamError, match="`models` must have an item part, got one of values"):
        evaluate_recommenders({"values": values}, GROUPS)
    with pytest.raises(ExfamError, match="`groups` must have a group with a target and an element"):
        evaluate_recommenders(MODELS, [["a"], ["b"]], hide="some")
    unseen = Groups(
        start=[0], stop=[2], item=[0, 1], ordered=True, vocabulary={"item": np.array(["a", "new"])}
    )
    with pytest.warns(ExfamWarning, match="never seen"):
        scores = evaluate_recommenders(MODELS, unseen)
    with pytest.raises(
        DataError, match="`X` must have a hidden item that the models know, got none"
    ):
        scores.to_frame()
