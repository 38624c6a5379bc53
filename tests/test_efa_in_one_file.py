"""The guide's EFA in plain torch, with the library's weights, gives the library's nats."""

import re

import numpy as np
import pytest
import torch

from exfam import EFA
from house.sources import ROOT

PAGE = ROOT / "docs" / "guide" / "efa_in_one_file.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COLUMNS = {"group": "person", "item": "movie", "value": "stars"}
# The library's name of a parameter -> the page's.
NAMES = {
    r"blocks\.(\d+)\.attention\.null\.(key|value)": r"layers.\1.null_\2",
    r"blocks\.(\d+)\.attention\.": r"layers.\1.",
    r"blocks\.(\d+)\.connection\.norm": r"layers.\1.norm",
    r"embedding\.fields\.\d\.mask": "mask",
    r"head\.norm": "norm",
}
ITEM_NAMES = {
    r"embedding\.fields\.0\.field\.table\.weight": "context",
    r"head\.centers\.table\.weight": "center",
    r"head\.bias": "bias",
}
VALUE_NAMES = {
    r"embedding\.fields\.0\.table\.weight": "item",
    r"embedding\.fields\.1\.field\.network": "value",
    r"head\.network": "head",
    r"head\.intercept\.constant": "constant",
    r"head\.intercept\.offset": "constant_of_item",
    r"head\.dispersion\.bias\.constant": "log_sd",
}


def source(text: str) -> str:
    """The Python of a page."""
    return "\n".join(BLOCK.findall(text))


@pytest.fixture(scope="module")
def page() -> dict:
    """The page's names: its table, functions and classes."""
    text = PAGE.read_text(encoding="utf-8")
    assert len(source(text).splitlines()) < 300
    namespace: dict = {"__name__": "page"}
    exec(compile(source(text.split("## Training\n")[0]), str(PAGE), "exec"), namespace)
    return namespace


def renamed(part: torch.nn.Module, into: torch.nn.Module, names: dict[str, str]) -> dict:
    """The part's parameters under the page's names and in its shapes."""
    shapes = {name: value.shape for name, value in into.state_dict().items()}
    state = {}
    for name, value in part.state_dict().items():
        for pattern, replacement in {**NAMES, **names}.items():
            name = re.sub(pattern, replacement, name)
        # The library's tables have a last row for items that training never saw.
        rows = value[:-1] if value.numel() > shapes[name].numel() else value
        state[name] = rows.reshape(shapes[name])
    return state


def with_weights_of(model: EFA, page: dict) -> tuple:
    """The page's two parts with the weights of the fitted model."""
    sizes = len(model.vocabulary_["item"]), model.resolved_["embed_dim"]
    options = {
        "n_heads": model.n_heads,
        "head_dim": model.resolved_["head_dim"],
        "n_layers": model.n_layers,
    }
    items = page["ItemPart"](*sizes, **options)
    values = page["ValuePart"](*sizes, **options)
    member, spec = model.members_[0], model.schema_.values[0]
    items.load_state_dict(renamed(member.item_part, items, ITEM_NAMES))
    values.load_state_dict(renamed(member.value_part, values, VALUE_NAMES))
    with torch.no_grad():  # the library standardizes the inputs of this network once more
        first = values.value[0]
        first.weight /= spec.spread
        first.bias -= first.weight[:, 0] * spec.center
    return items.eval(), values.eval()


@pytest.mark.parametrize("n_layers", [1, 2])
def test_log_probabilities_are_those_of_the_library(n_layers, page):
    options = {"base": "none", "family": "gaussian", "n_layers": n_layers}
    options |= {"max_epochs": 3, "progress": False}
    fitted = EFA(**COLUMNS, **options).fit(page["frame"])
    items, values = with_weights_of(fitted, page)
    family = fitted.schema_.values[0].family
    movies = fitted.vocabulary_["item"].tolist()
    # New groups of many sizes, one of them a single element.
    sizes, rng = [1, 2, 5, 12, 7, 11], np.random.default_rng(1)
    frame = {
        "person": np.repeat(range(6), sizes).tolist(),
        "movie": [name for size in sizes for name in rng.permutation(movies)[:size].tolist()],
        "stars": rng.normal(3.0, 1.0, sum(sizes)).tolist(),
    }
    groups = page["read_groups"](frame, movies, center=family.center, scale=family.scale)
    with torch.no_grad():
        of_item, of_value = page["log_probs"](items, values, groups, family.scale)
        of_every_item = items(groups)[groups.present].exp()
    parts = fitted.log_prob_parts(frame)
    np.testing.assert_allclose(of_item, parts["item"], atol=1e-5, rtol=0)
    np.testing.assert_allclose(of_value, parts["stars"], atol=1e-5, rtol=0)
    expected = fitted.predict_proba(frame, of="item")
    np.testing.assert_allclose(of_every_item, expected, atol=1e-5, rtol=0)
    score = float((of_item + of_value).mean())
    assert score == pytest.approx(fitted.score(frame), abs=1e-5)
