"""Fields, what they hide, and tokens joined from them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from exfam.embeddings import (
    CategoryAttribute,
    Concatenated,
    ItemEmbedding,
    MaskedField,
    NumberAttribute,
    NumberValue,
    RawValue,
    Reflected,
    Summed,
    TableValue,
    TokenEmbedding,
    reflection_signs,
)
from exfam.families import Categorical, Gaussian
from model_cases import generator, make_groups, whole

DIM = 4
every_value = pytest.mark.parametrize("kind", ["raw", "table", "number"])


def batch_with(**columns):
    return whole(
        make_groups(
            lengths=(3, 2),
            attributes={"genre": np.array([0, 2, -1, 1, 0]), "gap": np.arange(5.0)},
            group_attributes={"sex": np.array([1, -1]), "age": np.array([30.0, 50.0])},
            values={"value": np.array([1, 2, 3, 1, 2], dtype=np.float32)},
            **columns,
        )
    )


def item_field():
    return ItemEmbedding(9, DIM, generator=generator())


def value_field(kind):
    sizes = {"dim": DIM, "generator": generator()}
    if kind == "raw":
        return RawValue("value", Gaussian())
    if kind == "table":
        return TableValue("value", Categorical(3, start=1), **sizes)
    return NumberValue("value", Gaussian(), center=2.0, spread=0.5, **sizes)


def test_item_vectors_are_the_rows_of_known_items():
    field, batch = item_field(), batch_with(item=np.array([4, -1, 8, 0, 1], dtype=np.int32))
    out, vectors = field(batch), field.vectors()
    expected = torch.stack([vectors[4], 0 * vectors[4], vectors[8], vectors[0], vectors[1]])
    torch.testing.assert_close(out[batch.present], expected)
    with pytest.raises(ValueError, match="`item` must be given for this model, got groups without"):
        field(replace(batch, item=None))


def test_a_reflection_is_an_involution_that_trains_the_table_itself():
    items = item_field()
    centers = Reflected(items, reflection_signs(DIM))
    torch.testing.assert_close(centers.vectors() * centers.signs, items.vectors())
    assert not torch.equal(centers.vectors(), items.vectors())
    assert {id(p) for p in centers.parameters()} == {id(p) for p in items.parameters()}
    centers.vectors().sum().backward()
    torch.testing.assert_close(items.table.weight.grad[:-1], centers.signs.expand(9, DIM))
    for share, n_plus in {0.0: 0, 0.25: 1, 1.0: 4}.items():
        assert int((reflection_signs(DIM, share=share) > 0).sum()) == n_plus
    with pytest.raises(ValueError, match=r"`share` must be a number in \[0, 1\], got"):
        reflection_signs(DIM, share=1.5)
    for signs in (torch.ones(3), torch.tensor([1.0, -1.0, 0.5, 1.0])):
        with pytest.raises(ValueError, match="`signs` must be 4 numbers \\+1 or -1, got shape"):
            Reflected(items, signs)


@every_value
def test_an_unobserved_value_is_a_mask_and_never_nan(kind):
    out = value_field(kind)(batch_with())
    torch.testing.assert_close(out[0, 0], out[1, 0])  # equal values have equal vectors
    assert (out[0, 0] - out[0, 1]).abs().max() > 1e-3
    assert kind != "raw" or out[0, :, 0].tolist() == [1.0, 2.0, 3.0]
    batch = batch_with(observed=np.array([True, False, True, True, False]))
    garbage = torch.where(batch.observed, batch.values["value"], torch.nan)
    batch = replace(batch, values={"value": garbage})
    hidden = MaskedField(value_field(kind), generator=generator(1))
    content, mask = hidden.content(batch), hidden.mask.detach()
    torch.testing.assert_close(content[[0, 1], 1], mask.expand(2, -1))
    torch.testing.assert_close(content[0, 0], hidden.field(batch)[0, 0])
    torch.testing.assert_close(hidden.center(batch), mask.expand(2, 3, -1))
    content.sum().backward()
    for parameter in hidden.parameters():
        assert torch.isfinite(parameter.grad).all()


@pytest.mark.parametrize(("name", "of_group"), [("genre", False), ("sex", True)])
def test_an_unknown_category_is_a_zero_vector(name, of_group):
    field = CategoryAttribute(name, n=3, dim=DIM, generator=generator(), of_group=of_group)
    out = field(batch_with())
    unknown, known = (out[1], out[0]) if of_group else (out[0, 2], out[0, 1])
    assert unknown.abs().max() == 0 and known.abs().min() > 0


def test_numbers_are_standardized_and_those_of_a_group_are_all_its_elements():
    def out(name, center, spread, scale=1.0, of_group=False):
        units = {"center": torch.tensor([center]), "spread": torch.tensor([spread])}
        options = {"dim": DIM, "generator": generator(), "of_group": of_group}
        batch = batch_with()
        scaled = {**batch.attributes, "gap": batch.attributes["gap"] * scale}
        return NumberAttribute(name, **units, **options)(replace(batch, attributes=scaled))

    plain = out("gap", 2.0, 3.0)
    torch.testing.assert_close(plain, out("gap", 200.0, 300.0, scale=100.0))
    assert plain.std() > 1e-3
    age = out("age", 40.0, 10.0, of_group=True)
    torch.testing.assert_close(age[0, 0], age[0, 2])
    assert (age[0, 0] - age[1, 0]).abs().max() > 1e-3


def test_content_and_center_are_joined_field_by_field():
    items, batch = item_field(), batch_with()
    hidden = MaskedField(value_field("table"), generator=generator())
    summed = TokenEmbedding([items, hidden])
    joined = TokenEmbedding([items, hidden], join=Concatenated())
    assert (summed.dim, joined.dim) == (DIM, 2 * DIM)
    for view in ("content", "center"):
        own = getattr(hidden, view)(batch)
        torch.testing.assert_close(getattr(summed, view)(batch), items(batch) + own)
        torch.testing.assert_close(getattr(joined, view)(batch), torch.cat([items(batch), own], -1))
    everywhere = MaskedField(items, generator=generator(1))
    torch.testing.assert_close(everywhere.content(batch), items(batch))
    with pytest.raises(ValueError, match=r"`fields` must have one length .* got \[4, 1\]. Use"):
        TokenEmbedding([items, value_field("raw")], join=Summed())
    with pytest.raises(ValueError, match="`fields` must hold at least one field, got none."):
        TokenEmbedding([])
