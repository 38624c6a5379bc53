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


def source(until: str | None = None) -> str:
    """The page's Python, up to a heading."""
    text = PAGE.read_text(encoding="utf-8")
    return "\n".join(BLOCK.findall(text.split(f"## {until}\n")[0] if until else text))


@pytest.fixture(scope="module")
def page() -> dict:
    """The page's names: its table, functions and classes."""
    namespace: dict = {"__name__": "page"}
    exec(compile(source(until="Training"), str(PAGE), "exec"), namespace)
    return namespace


@pytest.fixture(scope="module", params=[1, 2])
def fitted(request, page) -> EFA:
    model = EFA(**COLUMNS, n_layers=request.param, max_epochs=3, progress=False)
    return model.fit(page["frame"])


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
    sizes = len(model.vocabulary_["item"]), model.embed_dim
    options = {"n_heads": model.n_heads, "head_dim": model.head_dim, "n_layers": model.n_layers}
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


def table(movies: list[str]) -> dict[str, list]:
    """New groups of many sizes, one of them a single element."""
    frame: dict[str, list] = {"person": [], "movie": [], "stars": []}
    rng = np.random.default_rng(1)
    for person, size in enumerate([1, 2, 5, 12, 7, 11]):
        frame["person"] += [person] * size
        frame["movie"] += rng.permutation(movies)[:size].tolist()
        frame["stars"] += rng.normal(3.0, 1.0, size).tolist()
    return frame


def test_log_probabilities_are_those_of_the_library(fitted, page):
    items, values = with_weights_of(fitted, page)
    family = fitted.schema_.values[0].family
    movies = fitted.vocabulary_["item"].tolist()
    frame = table(movies)
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


def test_the_page_is_short():
    assert len(source().splitlines()) < 300
