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
from exfam.layers import linear, mlp, normal, table
from model_cases import make_groups, whole

DIM = 4


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def batch_with(*, observed=None, item=None):
    n = 5
    groups = make_groups(
        lengths=(3, 2),
        observed=None if observed is None else np.array(observed),
        attributes={"genre": np.array([0, 2, -1, 1, 0]), "gap": np.arange(5.0)},
        group_attributes={"sex": np.array([1, -1]), "age": np.array([30.0, 50.0])},
        values={"value": np.array([1, 2, 3, 1, 2], dtype=np.float32)},
    )
    if item is not None:
        groups = groups.with_(item=np.array(item, dtype=np.int32))
    assert groups.n_elements == n
    return whole(groups)


def value_fields():
    g = generator()
    return {
        "raw": RawValue("value", Gaussian()),
        "table": TableValue("value", Categorical(3, start=1), dim=DIM, generator=g),
        "number": NumberValue("value", Gaussian(), center=2.0, spread=0.5, dim=DIM, generator=g),
    }


class TestItems:
    def test_vectors_are_the_rows_of_known_items(self):
        field = ItemEmbedding(9, DIM, generator=generator())
        batch = batch_with(item=[4, -1, 8, 0, 1])
        out = field(batch)
        torch.testing.assert_close(out[0, 0], field.vectors()[4])
        torch.testing.assert_close(out[1, :2], field.vectors()[:2])
        assert out[0, 1].abs().max() == 0

    def test_items_must_be_there(self):
        field = ItemEmbedding(9, DIM, generator=generator())
        with pytest.raises(ValueError, match="`item` must be given for this model, got groups wit"):
            field(replace(batch_with(), item=None))


class TestReflected:
    def test_is_an_involution_of_the_one_table(self):
        items = ItemEmbedding(9, DIM, generator=generator())
        centers = Reflected(items, reflection_signs(DIM))
        torch.testing.assert_close(centers.vectors(), items.vectors() * centers.signs)
        torch.testing.assert_close(centers.vectors() * centers.signs, items.vectors())
        assert not torch.equal(centers.vectors(), items.vectors())

    def test_has_no_parameters_of_its_own_and_trains_the_table(self):
        items = ItemEmbedding(9, DIM, generator=generator())
        centers = Reflected(items, reflection_signs(DIM))
        assert {id(p) for p in centers.parameters()} == {id(p) for p in items.parameters()}
        centers.vectors().sum().backward()
        expected = centers.signs.expand(9, DIM)
        torch.testing.assert_close(items.table.weight.grad[:-1], expected)

    @pytest.mark.parametrize(("share", "n_plus"), [(0.0, 0), (0.25, 1), (1.0, 4)])
    def test_share_of_plus_signs(self, share, n_plus):
        assert int((reflection_signs(DIM, share=share) > 0).sum()) == n_plus

    @pytest.mark.parametrize("share", [-0.1, 1.5])
    def test_share_is_a_fraction(self, share):
        with pytest.raises(ValueError, match=r"`share` must be a number in \[0, 1\], got"):
            reflection_signs(DIM, share=share)

    @pytest.mark.parametrize("signs", [torch.ones(3), torch.tensor([1.0, -1.0, 0.5, 1.0])])
    def test_signs_are_signs(self, signs):
        items = ItemEmbedding(9, DIM, generator=generator())
        with pytest.raises(ValueError, match="`signs` must be 4 numbers \\+1 or -1, got shape"):
            Reflected(items, signs)


class TestValues:
    @pytest.mark.parametrize("kind", ["raw", "table", "number"])
    def test_equal_values_have_equal_vectors(self, kind):
        field = value_fields()[kind]
        out = field(batch_with())
        assert out.shape == (2, 3, field.dim)
        torch.testing.assert_close(out[0, 0], out[1, 0])
        assert (out[0, 0] - out[0, 1]).abs().max() > 1e-3

    def test_raw_is_the_value(self):
        assert value_fields()["raw"](batch_with())[0, :, 0].tolist() == [1.0, 2.0, 3.0]

    @pytest.mark.parametrize("kind", ["raw", "table", "number"])
    def test_an_unobserved_value_is_a_mask_and_never_nan(self, kind):
        observed = [True, False, True, True, False]
        batch = batch_with(observed=observed)
        garbage = torch.where(batch.observed, batch.values["value"], torch.nan)
        batch = replace(batch, values={"value": garbage})
        hidden = MaskedField(value_fields()[kind], generator=generator(1))
        content = hidden.content(batch)
        torch.testing.assert_close(content[0, 1], hidden.mask.detach())
        torch.testing.assert_close(content[1, 1], hidden.mask.detach())
        torch.testing.assert_close(content[0, 0], hidden.field(batch)[0, 0])
        content.sum().backward()
        for parameter in hidden.parameters():
            assert torch.isfinite(parameter.grad).all()


class TestHidden:
    @pytest.mark.parametrize("kind", ["raw", "table", "number"])
    def test_the_center_shows_the_mask_everywhere(self, kind):
        hidden = MaskedField(value_fields()[kind], generator=generator(1))
        center = hidden.center(batch_with())
        torch.testing.assert_close(center, hidden.mask.detach().expand(2, 3, -1))

    def test_a_field_known_everywhere_is_content_as_it_is(self):
        items = ItemEmbedding(9, DIM, generator=generator())
        hidden = MaskedField(items, generator=generator(1))
        torch.testing.assert_close(hidden.content(batch_with()), items(batch_with()))


class TestAttributes:
    @pytest.mark.parametrize(("name", "of_group"), [("genre", False), ("sex", True)])
    def test_an_unknown_category_is_a_zero_vector(self, name, of_group):
        field = CategoryAttribute(name, n=3, dim=DIM, generator=generator(), of_group=of_group)
        out = field(batch_with())
        unknown = out[1] if of_group else out[0, 2]
        known = out[0] if of_group else out[0, 1]
        assert unknown.abs().max() == 0
        assert known.abs().min() > 0

    def test_a_group_attribute_is_the_same_for_all_elements(self):
        g = generator()
        one = {"center": torch.tensor([40.0]), "spread": torch.tensor([10.0])}
        field = NumberAttribute("age", **one, dim=DIM, generator=g, of_group=True)
        out = field(batch_with())
        torch.testing.assert_close(out[0, 0], out[0, 2])
        assert (out[0, 0] - out[1, 0]).abs().max() > 1e-3

    def test_numbers_are_standardized_first(self):
        def out(scale):
            field = NumberAttribute(
                "gap",
                center=torch.tensor([2.0]) * scale,
                spread=torch.tensor([3.0]) * scale,
                dim=DIM,
                generator=generator(),
            )
            batch = batch_with()
            scaled = {**batch.attributes, "gap": batch.attributes["gap"] * scale}
            return field(replace(batch, attributes=scaled))

        torch.testing.assert_close(out(1.0), out(100.0))
        assert out(1.0).std() > 1e-3


class TestTokens:
    def test_content_and_center_are_joined_field_by_field(self):
        g = generator()
        items = ItemEmbedding(9, DIM, generator=g)
        hidden = MaskedField(value_fields()["table"], generator=g)
        batch = batch_with()
        content, center = hidden.content(batch), hidden.center(batch)
        summed = TokenEmbedding([items, hidden])
        torch.testing.assert_close(summed.content(batch), items(batch) + content)
        torch.testing.assert_close(summed.center(batch), items(batch) + center)
        joined = TokenEmbedding([items, hidden], join=Concatenated())
        torch.testing.assert_close(joined.content(batch), torch.cat([items(batch), content], -1))
        torch.testing.assert_close(joined.center(batch), torch.cat([items(batch), center], -1))
        assert (summed.dim, joined.dim) == (DIM, 2 * DIM)

    def test_one_field_is_its_own_sum(self):
        items = ItemEmbedding(9, DIM, generator=generator())
        torch.testing.assert_close(
            TokenEmbedding([items]).content(batch_with()), items(batch_with())
        )

    def test_fields_of_different_length_cannot_be_summed(self):
        fields = [ItemEmbedding(9, DIM, generator=generator()), RawValue("value", Gaussian())]
        with pytest.raises(ValueError, match=r"`fields` must have one length .* got \[4, 1\]. Use"):
            TokenEmbedding(fields, join=Summed())

    def test_a_token_holds_something(self):
        with pytest.raises(ValueError, match="`fields` must hold at least one field, got none."):
            TokenEmbedding([])


class TestLayers:
    @pytest.mark.parametrize(
        "make",
        [
            lambda g: normal(3, 2, scale=1.0, generator=g),
            lambda g: linear(3, 2, generator=g).weight,
            lambda g: table(3, 2, scale=1.0, generator=g).weight,
            lambda g: mlp([3, 4, 2], generator=g)[2].weight,
        ],
    )
    def test_the_generator_decides_the_weights(self, make):
        torch.testing.assert_close(make(generator()), make(generator()), rtol=0, atol=0)
        assert not torch.equal(make(generator(0)), make(generator(1)))
        state = torch.get_rng_state()
        make(generator())
        assert torch.equal(torch.get_rng_state(), state)

    def test_a_linear_layer_may_have_no_bias(self):
        assert linear(3, 2, generator=generator(), bias=False).bias is None
