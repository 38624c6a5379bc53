"""Defaults that depend on the data: of sequences with a base, what is given, what is saved."""

import numpy as np
import pytest

import exfam
from estimator_cases import ratings
from exfam import EFA
from exfam.efa import defaults
from exfam.efa.defaults import DEFAULTS, ByKind, DataSize, by_kind, resolved, schedule_of

FRAME = ratings(n_users=25, n_movies=6, least=2)
COLUMNS = {"group": "user", "item": "movie", "order": "day", "progress": False, "max_epochs": 1}
OF_THE_PAPER = {
    "embed_dim": 32,
    "head_dim": 16,
    "n_layers": 2,
    "feed_forward_dim": 0,
    "context_hidden_dim": 0,
    "tie": "none",
    "learning_rate": 0.005,
    "weight_decay": 0.1,
    "max_epochs": 60,
    "batch_tokens": None,
    "n_sampled_items": 0,
    "ensemble": 1,
}


def test_without_a_base_defaults_are_those_of_the_paper():
    assert resolved(EFA(), kind="otherwise") == OF_THE_PAPER
    kinds = {
        "sequences": {"direction": "causal"},
        "otherwise": {"direction": "causal", "base": "none"},
        "both_sides": {},
        "sets": {"order": None},
    }
    assert resolved(EFA(direction="causal"), kind="sequences") != OF_THE_PAPER
    for kind, parameters in [*kinds.items(), ("otherwise", {"value": "stars"})]:
        model = EFA(**{**COLUMNS, **parameters}).fit(FRAME)
        assert model.resolved_ == {**resolved(EFA(), kind=kind), "max_epochs": 1}
        assert model.item_vectors_.shape[1] == model.resolved_["embed_dim"]


@pytest.mark.parametrize("kind", ByKind._fields)
@pytest.mark.parametrize("name", DEFAULTS)
def test_what_is_given_is_taken(name, kind):
    other = "reflection" if name == "tie" else np.float64(0.125) if name == "learning_rate" else 7
    values = resolved(EFA(**{name: other}), kind=kind)
    assert values.pop(name) == other
    others = {key: getattr(by, kind) for key, by in DEFAULTS.items() if key != name}
    if kind == "values" and name != "max_epochs":
        others["max_epochs"] = defaults.MOST_OF_VALUES
    assert values == others
    if len(set(DEFAULTS[name])) > 1:
        assert by_kind(name) in " ".join(EFA.__doc__.split())


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("sequences", {100: 60, 40_000: 40, 80_000: 20, 10**8: 20}),
        ("both_sides", {100: 60, 40_000: 40, 80_000: 20, 10**8: 20}),
        ("sets", {100: 60, 40_000: 40, 80_000: 20, 10**8: 14}),
        ("values", {100: 30, 20_000: 15, 80_000: 3, 10**8: 3}),
        ("otherwise", {100: 60, 10**8: 60}),
    ],
)
def test_epochs_go_with_the_number_of_elements(kind, sizes):
    for n_elements, expected in sizes.items():
        assert resolved(EFA(), kind=kind, size=DataSize(n_elements))["max_epochs"] == expected


def test_large_catalogs_take_fewer_epochs_and_the_usual_rate():
    few, many = (resolved(EFA(), kind="sets", size=DataSize(10**6, n)) for n in (2_000, 2_001))
    assert (few["max_epochs"], many["max_epochs"]) == (20, 10)
    fewer = resolved(EFA(), kind="sets", size=DataSize(149_999, 2_001))
    assert (fewer["max_epochs"], fewer["n_sampled_items"]) == (12, defaults.N_SAMPLED_OF_SETS)
    assert (few["learning_rate"], many["learning_rate"]) == (0.01, 0.005)
    assert (few["embed_dim"], many["embed_dim"]) == (64, 32)


def test_many_sets_are_learned_faster_and_held_less_firmly():
    few, many, more = (
        resolved(EFA(), kind="sets", size=DataSize(n, 400)) for n in (74_999, 75_000, 150_000)
    )
    assert few["learning_rate"] < many["learning_rate"] == more["learning_rate"]
    assert (few["weight_decay"], many["weight_decay"], more["weight_decay"]) == (0.1, 0.32, 0.16)
    schedules = [schedule_of("sets", DataSize(n)) for n in (74_999, 75_000)]
    assert (
        schedules == ["descending", "cosine"] and schedule_of("otherwise", DataSize()) == "cosine"
    )


def test_very_many_sets_of_few_items_have_two_members_in_fewer_epochs():
    for kind, n_elements, n_items, expected in [
        ("sets", 150_000, 100, (2, 14)),
        ("sets", 10**8, 100, (2, 14)),
        ("sets", 149_999, 100, (1, 20)),
        ("sets", 150_000, 101, (1, 20)),
        ("sequences", 150_000, 100, (1, 20)),
    ]:
        values = resolved(EFA(), kind=kind, size=DataSize(n_elements, n_items))
        assert (values["ensemble"], values["max_epochs"]) == expected


@pytest.mark.parametrize("kind", ByKind._fields)
def test_members_and_sampled_items_go_with_the_size_of_the_data(kind):
    members, enough = defaults.MANY_ELEMENTS, defaults.LEAST_HELD_OUT
    n_items, n_sampled = defaults.MOST_ITEMS, defaults.N_SAMPLED_ITEMS
    for n, several in {100: defaults.MOST_MEMBERS, members // 2: 2, members: 1, 10**8: 1}.items():
        sizes = {DataSize(n, n_items, enough): (several, 0)}
        sizes[DataSize(n, n_items + 1, enough - 1)] = (1, n_sampled)
        for size, expected in sizes.items():
            values = resolved(EFA(), kind=kind, size=size)
            if kind == "sets" and expected[1]:
                expected = (expected[0], defaults.N_SAMPLED_OF_SETS)
            expected = (1, 0) if kind in ("otherwise", "values") else expected
            assert (values["ensemble"], values["n_sampled_items"]) == expected


def test_small_data_are_fitted_by_several_members():
    frame, most = ratings(n_users=210, n_movies=6, least=2), defaults.MOST_MEMBERS
    for parameters, n in [({}, most), ({"ensemble": 2}, 2), ({"validation_fraction": 0.05}, 1)]:
        model = EFA(**COLUMNS, embed_dim=4, head_dim=2, **parameters).fit(frame)
        assert len(model.members_) == len(model.histories_) == model.resolved_["ensemble"] == n


def test_groups_a_step_and_joined_vectors_rule_out_what_contradicts_them():
    values = resolved(EFA(batch_size=4, join="concatenate"), kind="sequences")
    assert values["batch_tokens"] is None and values["tie"] == "none"


def test_a_saved_model_keeps_what_none_meant(tmp_path, monkeypatch):
    model = EFA(**COLUMNS, direction="causal").fit(FRAME)
    model.save(tmp_path / "model")
    monkeypatch.setitem(defaults.DEFAULTS, "embed_dim", ByKind(1, 1, 1, 1, 1))
    loaded = exfam.load(tmp_path / "model")
    assert loaded.resolved_ == model.resolved_ and loaded.embed_dim is None
    np.testing.assert_array_equal(loaded.log_prob(FRAME), model.log_prob(FRAME))
