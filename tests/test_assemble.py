"""Models built from a schema: every combination of choices, and the leak law of whole models."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from efa_cases import FAMILIES, N_ITEMS, rich_groups, rich_schema, small_model
from exfam.attention import CONNECTIONS, SCORE_KERNELS
from exfam.checks import ExfamError
from exfam.conditionals import CONDITIONALS
from exfam.efa.networks.assemble import JOINS, TIES, VALUE_EMBEDDINGS, EFASettings, build_efa
from exfam.encodings import ENCODINGS
from exfam.estimator.schema import Schema
from exfam.families import Binomial, Categorical, Gaussian, Ordinal, Poisson
from exfam.groups import Groups
from exfam.likelihoods.two_part import DIRECTIONS, SUPPORTS
from model_cases import make_groups, more_padding, with_item, with_value

SCHEMA = rich_schema(rich_groups(), known=("genre",))
PARTS = {
    "items": {"values": False},
    "values": {"items": False},
    "both": {},
    "items that see values": {"item_sees_values": True},
    "values with a group offset": {"items": False, "group_offset": True},
}


def batch_of(groups):
    return groups.pad(range(len(groups)))


def assert_works(model):
    """Finite log-probabilities, and a finite gradient that is not all 0 for every parameter."""
    model.train()
    batch = batch_of(rich_groups())
    log_prob = model.log_prob(batch)
    total = log_prob.total()
    assert torch.isfinite(total).all() and total.std() > 0
    assert total[~batch.present].abs().max() == 0
    total.sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.numel() == 0 or parameter.grad.abs().max() > 0, name


NETWORKS = [
    {"direction": direction, "conditional": conditional, "encoding": encoding}
    for direction, conditional, encoding in itertools.product(
        DIRECTIONS, ["auto", *CONDITIONALS], ENCODINGS
    )
    if conditional != "two_stream" or direction == "causal"
]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: "-".join(n.values()))
def test_every_network_builds_and_learns(network):
    connection = "residual" if network["conditional"] == "exact" else "pre-norm"
    choices = {**network, "connection": connection}
    assert_works(small_model(SCHEMA, **choices))


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize(("tie", "join", "support"), list(itertools.product(TIES, JOINS, SUPPORTS)))
def test_every_model_builds_and_learns(parts, tie, join, support):
    choices = {"tie": tie, "join": join, "support": support, **PARTS[parts]}
    if (tie, join) == ("reflection", "concatenate") and choices.get("items", True):
        with pytest.raises(ExfamError, match="`tie` must be 'none' where tokens hold more than it"):
            small_model(SCHEMA, **choices)
        return
    assert_works(small_model(SCHEMA, **choices))


@pytest.mark.parametrize(
    "network",
    [
        {"attention": kernel, "connection": connection, "null_token": null, "sees_mask": sees_mask}
        for kernel, connection in itertools.product(SCORE_KERNELS, CONNECTIONS)
        for null, sees_mask in [(True, False), (False, True)]
        # A score below 0 has no gradient there, and the null token's key has one score alone.
        if not (kernel == "relu-mean" and null)
    ],
    ids=lambda network: "-".join(map(str, network.values())),
)
def test_every_block_builds_and_learns(network):
    assert_works(small_model(SCHEMA, **network, feed_forward_dim=6))


@pytest.mark.parametrize("kind", VALUE_EMBEDDINGS)
@pytest.mark.parametrize("dispersion", ["global", "item"])
@pytest.mark.parametrize("head_hidden_dim", [0, 5])
def test_every_value_part_builds_and_learns(kind, dispersion, head_hidden_dim):
    schema = SCHEMA
    if kind == "table":
        schema = replace(SCHEMA, values=SCHEMA.values[:1])
    join = "concatenate" if kind == "raw" else "sum"
    model = small_model(
        schema,
        value_embedding=kind,
        dispersion=dispersion,
        head_hidden_dim=head_hidden_dim,
        join=join,
        items=False,
    )
    assert_works(model)


def test_dropout_is_off_when_evaluating():
    model = small_model(SCHEMA, dropout=0.5, feed_forward_dim=6)
    batch = batch_of(rich_groups())
    with torch.random.fork_rng():
        once, again = (model.train().log_prob(batch).total() for _ in range(2))
    assert (once - again).abs().max() > 1e-3
    once, again = (model.eval().log_prob(batch).total() for _ in range(2))
    torch.testing.assert_close(once, again, rtol=0, atol=0)


class TestLeakLaw:
    """What of an element its own conditionals may know, and what of the others'."""

    CASES = [
        (direction, conditional, sees_values)
        for direction, conditional in itertools.product(DIRECTIONS, CONDITIONALS)
        for sees_values in (False, True)
        if conditional != "two_stream" or direction == "causal"
    ]

    def model(self, direction, conditional, sees_values):
        network = {"direction": direction, "conditional": conditional, "connection": "residual"}
        choices = {"item_sees_values": sees_values, "group_offset": sees_values}
        return small_model(SCHEMA, **network, **choices).eval()

    def batch(self):
        """Of the first group, a row for each of its five elements to be changed in; the others."""
        return batch_of(rich_groups()[[0] * 5 + [1, 2]])

    def moved(self, model, batch, other):
        """Where the item and the value conditionals of the first group's rows differ."""
        with torch.no_grad():
            item = model.item_log_probs(batch) - model.item_log_probs(other)
            value = torch.cat(list(model.value_eta(batch).values()), -1)
            value = value - torch.cat(list(model.value_eta(other).values()), -1)
        return [(part[:5].abs().amax(-1) > 1e-5).tolist() for part in (item, value)]

    def visible(self, direction, j):
        """Elements that see element j of five."""
        return [(j < i) if direction == "causal" else (j != i) for i in range(5)]

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_an_item_moves_all_but_its_own_item(self, case):
        model, batch = self.model(*case), self.batch()
        other = batch
        for j in range(5):
            other = with_item(other, j, j, (int(batch.item[j, j]) + 1) % N_ITEMS)
        item, value = self.moved(model, batch, other)
        for j in range(5):
            sees = self.visible(case[0], j)
            assert item[j] == sees
            assert value[j] == [see or i == j for i, see in enumerate(sees)]

    @pytest.mark.parametrize("case", CASES, ids=str)
    @pytest.mark.parametrize("column", sorted(FAMILIES))
    def test_a_value_moves_other_values_and_items_only_if_they_see_values(self, case, column):
        model, batch = self.model(*case), self.batch()
        other = batch
        for j in range(5):
            new = float(batch.values[column][j, j]) % 3 + 1
            other = with_value(other, j, j, new, name=column)
        item, value = self.moved(model, batch, other)
        for j in range(5):
            sees = self.visible(case[0], j)
            assert value[j] == sees
            assert item[j] == [see and case[2] for see in sees]

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_an_attribute_shows_at_the_center_only_if_known(self, case):
        model, batch, each = self.model(*case), self.batch(), range(5)
        for name, known in (("genre", True), ("gap", False)):
            column = batch.attributes[name].clone()
            column[each, each] = (column[each, each] + 1) % 4
            other = replace(batch, attributes={**batch.attributes, name: column})
            item, value = self.moved(model, batch, other)
            for j in each:
                sees = self.visible(case[0], j)
                assert item[j] == [see or (known and i == j) for i, see in enumerate(sees)]
                assert value[j] == [see or i == j for i, see in enumerate(sees)]

    def test_attributes_of_groups_move_everything(self):
        model, batch = self.model("causal", "static", False), self.batch()
        age = batch.group_attributes["age"] + 10.0
        other = replace(batch, group_attributes={**batch.group_attributes, "age": age})
        assert self.moved(model, batch, other) == [[[True] * 5] * 5] * 2

    @pytest.mark.parametrize("case", [case for case in CASES if case[0] == "causal"], ids=str)
    def test_appended_elements_change_nothing_causal(self, case):
        model, groups = self.model(*case), rich_groups()
        longer = groups.pad([0])
        shorter = groups.with_(
            start=[0],
            stop=[3],
            group_attributes={name: column[:1] for name, column in groups.group_attributes.items()},
        ).pad([0])
        with torch.no_grad():
            long, short = model.log_prob(longer).total(), model.log_prob(shorter).total()
        torch.testing.assert_close(long[:, :3], short, atol=1e-5, rtol=1e-5)

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_padding_and_company_change_nothing(self, case):
        model, groups = self.model(*case), rich_groups()
        together = batch_of(groups)
        with torch.no_grad():
            total = model.log_prob(together).total()
            for row, length in enumerate([5, 1, 4]):
                alone = model.log_prob(groups.pad([row])).total()[0]
                torch.testing.assert_close(total[row, :length], alone, atol=1e-5, rtol=1e-5)

    def test_garbage_in_padding_changes_nothing(self):
        groups = rich_groups().with_(attributes={}, group_attributes={})
        model = small_model(rich_schema(groups, attributes=())).eval()
        batch = batch_of(groups)
        with torch.no_grad():
            clean = model.log_prob(batch).total()
            padded = model.log_prob(more_padding(batch)).total()
        torch.testing.assert_close(padded[:, :5], clean, atol=1e-5, rtol=1e-5)


class TestTying:
    def test_halves_the_item_vectors(self):
        free, tied = (small_model(SCHEMA, tie=tie, values=False) for tie in TIES)
        sizes = [sum(p.numel() for p in model.parameters()) for model in (free, tied)]
        assert sizes[0] - sizes[1] == (N_ITEMS + 1) * 8

    def test_centers_are_the_reflected_context_vectors(self):
        part = small_model(SCHEMA, tie="reflection", values=False).item_part
        context, centers = part.embedding.fields[0].field, part.head.centers
        torch.testing.assert_close(centers.vectors(), context.vectors() * centers.signs)


class TestRefusals:
    def test_a_part_needs_its_columns(self):
        groups = make_groups()
        schema = Schema.of(groups.with_(item=None), families={"value": Gaussian()})
        with pytest.raises(ExfamError, match="`item` must be given for an item part, got data wit"):
            small_model(schema)
        assert small_model(schema, items=False).value_part is not None
        with pytest.raises(ExfamError, match="`value` must be given for a value part, got data wi"):
            small_model(Schema.of(groups, families={}))

    @pytest.mark.parametrize(
        ("choices", "match"),
        [
            ({"value_embedding": "table", "items": False}, "must not be 'table' for family 'ga"),
            ({"conditional": "exact", "feed_forward_dim": 6}, "be one that serves this network"),
            ({"encoding": "fourier"}, "`encoding` must be one of"),
            ({"conditional": "all"}, "`conditional` must be one of 'auto'"),
        ],
    )
    def test_choices_fit_each_other(self, choices, match):
        with pytest.raises(ExfamError, match=match):
            small_model(SCHEMA, **choices)


@pytest.mark.parametrize(
    "family",
    [Gaussian(), Poisson(shift=1), Categorical(4, start=1), Ordinal(4, start=1), Binomial(5)],
    ids=lambda family: family.name,
)
def test_group_offset_starts_as_a_shift_of_the_mean(family):
    """A context one unit above expectation, hardly shrunk, moves the mean by about one unit."""
    value = np.tile([1.0, 2.0, 2.0, 3.0, 4.0], 40)
    groups = Groups(start=[0], stop=[len(value)], values={"stars": value})
    schema = Schema.of(groups, families={"stars": family})
    settings = EFASettings(items=False, group_offset=True)
    part = build_efa(schema, settings, generator=torch.Generator().manual_seed(0)).value_part
    eta = torch.tensor(schema.values[0].initial_eta)
    n_location = family.n_params - family.n_dispersion
    moved = eta.clone()
    moved[:n_location] += 0.01 * part.head.offset.slope[0].detach()
    change = family.mean(moved) - family.mean(eta)
    torch.testing.assert_close(change, torch.tensor(0.01), rtol=0.02, atol=1e-5)
