"""Habits that can be read off the source."""

import ast

import pytest

from house.sources import FILES, TESTS, dotted, parsed, shown

LONGEST = 420
# "random" has a global state alone that anyone may move.
UNSAFE_MODULES = {"random", "pickle", "cloudpickle", "dill", "marshal", "shelve"}
UNSAFE_CALLS = {"eval", "exec", "torch.load", "torch.save", "joblib.dump", "joblib.load"}
# Modules and functions that draw from torch's global generator and take no other.
GLOBAL_DRAWS = {
    "nn.Dropout",
    "nn.functional.dropout",
    "nn.LSTM",
    "nn.Linear",
    "nn.TransformerEncoderLayer",
    "functional.dropout",
    "functional.scaled_dot_product_attention",
    "torch.rand_like",
    "torch.randint_like",
    "torch.randn_like",
    "torch.distributions",
}
# Functions that draw from it unless they are given one.
DRAWS = {"rand", "randint", "randn", "randperm", "multinomial", "bernoulli", "normal", "poisson"}
IN_PLACE = {"bernoulli_", "exponential_", "normal_", "random_", "uniform_"}
GLOBAL_SEEDS = {
    f"{module}{seed}"
    for module, seeds in {
        "np.random.": ["seed"],
        "numpy.random.": ["seed"],
        "random.": ["seed"],
        "torch.": ["manual_seed", "random.manual_seed", "cuda.manual_seed", "cuda.manual_seed_all"],
    }.items()
    for seed in seeds
}


def forbidden(tree: ast.Module) -> list[str]:
    """Imports and calls that are unsafe or seed a global generator."""
    wrong = []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name in UNSAFE_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in UNSAFE_MODULES:
            names = [node.module]
        elif isinstance(node, ast.Call) and dotted(node.func) in UNSAFE_CALLS | GLOBAL_SEEDS:
            names = [dotted(node.func)]
        wrong += [f"line {node.lineno}: {name}" for name in names]
    return wrong


def global_draws(tree: ast.Module) -> list[str]:
    """Calls that draw from torch's global generator."""
    wrong = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        last = name.rpartition(".")[2]
        may = name == f"torch.{last}" and last in DRAWS
        may |= isinstance(node.func, ast.Attribute) and node.func.attr in IN_PLACE
        given = any(keyword.arg == "generator" for keyword in node.keywords)
        on_meta = any(keyword.arg == "device" for keyword in node.keywords) and name == "nn.LSTM"
        if (name in GLOBAL_DRAWS and not on_meta) or (may and not given):
            wrong.append(f"line {node.lineno}: {name or node.func.attr}")
    return wrong


def unmatched(tree: ast.Module) -> list[str]:
    """Uses of `pytest.raises(SomeError)` that accept any message."""
    wrong = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func) == "pytest.raises":
            exits = node.args and dotted(node.args[0]) in {"SystemExit", "KeyboardInterrupt"}
            if not exits and not any(keyword.arg == "match" for keyword in node.keywords):
                wrong.append(f"line {node.lineno}")
    return wrong


def wrong_in(paths, find) -> dict[str, list[str]]:
    """Of each file what is wrong in it, if anything."""
    found = {shown(path): find(parsed(path)) for path in paths}
    return {name: lines for name, lines in found.items() if lines}


def test_a_file_is_one_idea():
    """One that outgrows it becomes a folder with the same name."""
    sizes = {shown(path): path.read_text(encoding="utf-8").count("\n") for path in FILES}
    assert not {name: size for name, size in sizes.items() if size > LONGEST}


def test_a_file_is_safe_and_seeded():
    """It draws from a generator that is passed or lent."""
    assert not wrong_in(FILES, lambda tree: forbidden(tree) + global_draws(tree))


def test_an_expected_error_is_known_by_its_message():
    assert not wrong_in(TESTS, unmatched)


@pytest.mark.parametrize(
    ("find", "wrong", "right"),
    [
        (
            forbidden,
            ["import pickle", "from pickle import dumps", "eval('1')", "torch.manual_seed(0)"]
            + ["np.random.seed(0)", "torch.load('model.pt')"],
            ["model.eval()", "generator.manual_seed(0)", "np.random.default_rng(0)"],
        ),
        (
            global_draws,
            ["nn.Dropout(0.5)", "nn.Linear(1, 1)", "torch.rand(2)", "x.clone().normal_()"]
            + ["torch.randperm(n)[:k]", "torch.rand_like(x)", "weight.uniform_(-1, 1)"],
            ["Dropout(0.5)", "torch.rand(2, generator=g)", "random.normal(size=3)"]
            + ["x.normal_(generator=g)", 'nn.LSTM(1, 1, device="meta")'],
        ),
        (unmatched, ["pytest.raises(E)"], ["pytest.raises(E, match='x')"]),
    ],
)
def test_a_wrong_line_is_found_and_a_right_one_is_not(find, wrong, right):
    assert all(find(ast.parse(line)) for line in wrong)
    assert not any(find(ast.parse(line)) for line in right)
