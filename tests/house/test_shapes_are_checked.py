"""Shapes and types of arguments and of what is returned, checked by what checks exfam."""

import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor

import exfam.layers
from shape_checks import checked


@checked
def outer(
    left: Float[Tensor, "rows"], right: Float[Tensor, "columns"], *, keep: int = 0
) -> Float[Tensor, "rows columns"]:
    product = left[:, None] * right
    return product[:, : len(right) - keep]


@checked
def same(left: Float[Tensor, "rows"], right: Float[Tensor, "rows"]) -> str:
    return "same" if torch.equal(left, right) else None


def test_shapes_that_hold_pass():
    assert outer(torch.ones(2), torch.ones(3)).shape == (2, 3)
    assert same(torch.ones(2), torch.ones(2)) == "same"


@pytest.mark.parametrize(
    ("function", "arguments", "options", "message"),
    [
        (outer, (torch.ones(2, 1), torch.ones(3)), {}, r"outer\(\) parameter"),
        (outer, (torch.ones(2), torch.ones(3, dtype=torch.int64)), {}, r"outer\(\) parameter"),
        (outer, (torch.ones(2), None), {}, r"outer\(\) parameter"),
        (outer, (torch.ones(2), torch.ones(3)), {"keep": "0"}, r"outer\(\) parameter"),
        (outer, (torch.ones(2), torch.ones(3)), {"keep": 1}, r"outer\(\) return"),
        (same, (torch.ones(2), torch.ones(3)), {}, r"same\(\) parameter"),
        (same, (torch.ones(2), torch.zeros(2)), {}, r"same\(\) return"),
        (exfam.layers.linear, (2, 3), {"generator": None}, r"exfam\.layers\.linear\(\) parameter"),
    ],
)
def test_others_are_refused(function, arguments, options, message):
    # What passed before hides nothing: not even another result of the same arguments.
    assert outer(torch.ones(2), torch.ones(3), keep=0).shape == (2, 3)
    assert same(torch.ones(2), torch.ones(2)) == "same"
    with pytest.raises(TypeCheckError, match=message):
        function(*arguments, **options)
