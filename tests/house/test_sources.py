"""Habits that can be read off the source."""

import ast

import pytest

from house.sources import FILES, TESTS, dotted, parsed, shown

LONGEST = 420
UNSAFE_MODULES = {"pickle", "cloudpickle", "dill", "marshal", "shelve"}
UNSAFE_CALLS = {"eval", "exec", "torch.load", "torch.save", "joblib.dump", "joblib.load"}
GLOBAL_SEEDS = {
    "np.random.seed",
    "numpy.random.seed",
    "random.seed",
    "torch.manual_seed",
    "torch.random.manual_seed",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
}


def forbidden(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name in UNSAFE_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in UNSAFE_MODULES:
            names = [node.module]
        elif isinstance(node, ast.Call) and dotted(node.func) in UNSAFE_CALLS | GLOBAL_SEEDS:
            names = [dotted(node.func)]
        found += [f"line {node.lineno}: {name}" for name in names]
    return found


@pytest.mark.parametrize("path", FILES, ids=shown)
def test_a_file_is_one_idea(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST, "a file that outgrows one idea becomes a folder with the same name"


@pytest.mark.parametrize("path", FILES, ids=shown)
def test_nothing_unsafe_and_no_global_seed(path):
    assert not forbidden(parsed(path))


@pytest.mark.parametrize(
    "line",
    ["import pickle", "from pickle import dumps", "eval('1')", "torch.manual_seed(0)"]
    + ["np.random.seed(0)", "torch.load('model.pt')"],
)
def test_a_forbidden_line_is_found(line):
    assert forbidden(ast.parse(line))


@pytest.mark.parametrize(
    "line", ["model.eval()", "generator.manual_seed(0)", "np.random.default_rng(0)"]
)
def test_an_innocent_line_is_not(line):
    assert not forbidden(ast.parse(line))


def unmatched(tree: ast.Module) -> list[int]:
    """Lines of `pytest.raises(SomeError)` that accept any message."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func) == "pytest.raises":
            exits = node.args and dotted(node.args[0]) in {"SystemExit", "KeyboardInterrupt"}
            if not exits and not any(keyword.arg == "match" for keyword in node.keywords):
                lines.append(node.lineno)
    return lines


@pytest.mark.parametrize("path", TESTS, ids=shown)
def test_an_expected_error_is_known_by_its_message(path):
    assert not unmatched(parsed(path))


def test_an_unmatched_error_is_found():
    tree = ast.parse("with pytest.raises(ValueError):\n    pass\npytest.raises(E, match='x')")
    assert unmatched(tree) == [1]
