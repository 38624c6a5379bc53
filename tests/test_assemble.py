"""Models built from a schema: every combination of choices, and the leak law of whole models."""

import itertools
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import exfam
from efa_cases import FAMILIES, N_ITEMS, rich_groups, rich_schema, small_model
from exfam.attention import SCORE_KERNELS
from exfam.checks import ExfamError
from exfam.conditionals import CONDITIONALS
from exfam.efa.networks.assemble import JOINS, TIES, VALUE_EMBEDDINGS, EFASettings, build_efa
from exfam.encodings import ENCODINGS
from exfam.estimator.schema import Schema
from exfam.families import Binomial, Categorical, Gaussian, Ordinal, Poisson
from exfam.groups import Groups
from exfam.layers import CONNECTIONS
from exfam.likelihoods.two_part import DIRECTIONS, SUPPORTS
from model_cases import make_groups, more_padding

SCHEMA = rich_schema(rich_groups(), known=("genre",))
PARTS = [
    {"values": False},
    {"items": False},
    {},
    {"item_sees_values": True},
    {"items": False, "group_offset": True},
]


def every(**choices):
    """All combinations."""
    return [
        dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())
    ]


WIRINGS = [
    wiring
    for wiring in every(direction=DIRECTIONS, conditional=CONDITIONALS)
    if wiring["conditional"] != "two_stream" or wiring["direction"] == "causal"
]
NETWORKS = [
    {**wiring, "encoding": encoding, "connection": "residual"}
    for wiring, encoding in itertools.product(WIRINGS, ENCODINGS)
]
BLOCKS = [
    {**block, "null_token": null, "sees_mask": not null, "feed_forward_dim": 6}
    for block in every(attention=SCORE_KERNELS, connection=CONNECTIONS)
    # A score below 0 has no gradient there, and the null token's key has one score alone.
    for null in ((False,) if block["attention"] == "relu-mean" else (True, False))
]
VALUE_PARTS = every(
    value_embedding=VALUE_EMBEDDINGS,
    dispersion=("global", "item"),
    head_hidden_dim=(0, 5),
    items=[False],
)
MODELS = [
    {**choices, **parts}
    for choices, parts in itertools.product(every(tie=TIES, join=JOINS, support=SUPPORTS), PARTS)
    # Refused: vectors of items are not as long as tokens of fields side by side.
    if choices["tie"] == "none" or choices["join"] != "concatenate" or "items" in parts
]


def batch_of(groups):
    return groups.pad(range(len(groups)))


@pytest.mark.parametrize("choices", [*NETWORKS, *BLOCKS, *VALUE_PARTS, *MODELS], ids=str)
def test_every_model_builds_and_learns(choices):
    """Finite log-probabilities, and a finite gradient that is not all 0 for every parameter."""
    schema, kind = SCHEMA, choices.get("value_embedding")
    if kind == "table":
        schema = replace(SCHEMA, values=SCHEMA.values[:1])
    if kind == "raw":
        choices = {**choices, "join": "concatenate"}
    model, batch = small_model(schema, **choices).train(), batch_of(rich_groups())
    total = model.log_prob(batch).total()
    assert torch.isfinite(total).all() and total.std() > 0
    assert total[~batch.present].abs().max() == 0
    total.sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.numel() == 0 or parameter.grad.abs().max() > 0, name


LEAK_CASES = [{**wiring, "sees": sees} for wiring in WIRINGS for sees in (False, True)]
every_case = pytest.mark.parametrize("case", LEAK_CASES, ids=str)


def leak_model(case, schema=SCHEMA):
    network = {"direction": case["direction"], "conditional": case["conditional"]}
    choices = {"item_sees_values": case["sees"], "group_offset": case["sees"]}
    return small_model(schema, connection="residual", **network, **choices).eval()


@pytest.mark.parametrize("what", ["item", *sorted(FAMILIES), "genre", "gap", "age"])
@every_case
def test_what_an_element_moves(case, what):
    """Items are blind for their own item and unknown attributes, values for their own alone."""
    model, own = leak_model(case), torch.arange(5)
    # Of the first group, a row for each of its five elements to be changed in; the others.
    batch = batch_of(rich_groups()[[0] * 5 + [1, 2]])
    columns = {"item": batch.item, **batch.values, **batch.attributes, **batch.group_attributes}
    column = columns[what].clone()
    at = own if what == "age" else (own, own)
    column[at] = column[at] % 3 + 1
    other = replace(batch, item=column) if what == "item" else batch
    for name in ("values", "attributes", "group_attributes"):
        if what in getattr(batch, name):
            other = replace(batch, **{name: {**getattr(batch, name), what: column}})
    with torch.no_grad():
        item = model.item_log_probs(batch) - model.item_log_probs(other)
        etas = [torch.cat(list(model.value_eta(given).values()), -1) for given in (batch, other)]
    sees = own[:, None] < own if case["direction"] == "causal" else own[:, None] != own
    with_own = sees | (own[:, None] == own)
    every = torch.ones_like(sees)
    seen = {"item": (sees, with_own), "gap": (sees, with_own), "genre": (with_own, with_own)}
    seen["age"] = (every, every)
    of_item, of_value = seen.get(what, (sees & case["sees"], sees))
    for difference, expected in ((item, of_item), (etas[0] - etas[1], of_value)):
        assert torch.equal(difference[:5].abs().amax(-1) > 1e-5, expected)


@every_case
def test_later_elements_and_garbage_in_padding_change_nothing(case):
    groups = rich_groups().with_(attributes={}, group_attributes={})
    model = leak_model(case, rich_schema(groups, attributes=()))
    batch, first = batch_of(groups), groups.with_(start=[0], stop=[3]).pad([0])
    with torch.no_grad():
        total, padded, shorter = (
            model.log_prob(given).total() for given in (batch, more_padding(batch), first)
        )
    torch.testing.assert_close(padded[:, :5], total, atol=1e-5, rtol=1e-5)
    if case["direction"] == "causal":
        torch.testing.assert_close(total[:1, :3], shorter, atol=1e-5, rtol=1e-5)


def test_tying_halves_the_item_vectors_and_reflects_them():
    free, tied = (small_model(SCHEMA, tie=tie, values=False) for tie in ("none", "reflection"))
    sizes = [sum(p.numel() for p in model.parameters()) for model in (free, tied)]
    assert sizes[0] - sizes[1] == (N_ITEMS + 1) * 8
    context, centers = tied.item_part.embedding.fields[0].field, tied.item_part.head.centers
    torch.testing.assert_close(centers.vectors(), context.vectors() * centers.signs)


WITHOUT_ITEMS = Schema.of(make_groups().with_(item=None), families={"value": Gaussian()})


@pytest.mark.parametrize(
    ("schema", "choices", "match"),
    [
        (WITHOUT_ITEMS, {}, "`item` must be given for an item part, got data wit"),
        (Schema.of(make_groups(), families={}), {}, "`value` must be given for a value part, got"),
        (SCHEMA, {"value_embedding": "table", "items": False}, "must not be 'table' for family 'g"),
        (SCHEMA, {"conditional": "exact", "feed_forward_dim": 6}, "be one that serves this networ"),
        (SCHEMA, {"encoding": "fourier"}, "`encoding` must be one of"),
        (SCHEMA, {"tie": "reflection", "join": "concatenate"}, "`tie` must be 'none' where tokens"),
    ],
)
def test_choices_fit_the_data_and_each_other(schema, choices, match):
    with pytest.raises(ExfamError, match=match):
        small_model(schema, **choices)


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


@pytest.mark.parametrize(
    "labels",
    [
        np.array([-100, 100, 3, -100], np.int8),
        np.array([2**40, 5, 2**62, 5]),
        np.array([2**64 - 1, 2**64 - 3, 7, 7], np.uint64),
    ],
    ids=["close", "far apart", "beyond int64"],
)
def test_items_of_files_have_the_codes_of_frames(tmp_path, labels):
    frame = {"user": [2, 1, 2, 3], "item": labels}
    pq.write_table(pa.table(frame), tmp_path / "rows.parquet")
    read = exfam.read(tmp_path / "rows.parquet", group="user", item="item")
    same = exfam.Groups.from_frame(frame, group="user", item="item")
    assert read.item.tolist() == same.item.tolist()
    assert read.vocabulary["item"].tolist() == same.vocabulary["item"].tolist()
