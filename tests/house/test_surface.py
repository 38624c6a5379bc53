"""What is public is what is said to be public."""

import importlib
import inspect
import subprocess
import sys

import pytest

import exfam
from house.sources import FILES, ROOT, module_name

# Folders; in files, names without an underscore are those that other files may import.
PACKAGES = [module_name(path) for path in FILES if path.name == "__init__.py"]
# What fresh processes have not loaded after one import, and after further ones.
ESTIMATORS = "sklearn pandas polars numba matplotlib jinja2 scipy.stats"
UNLOADED = [
    {
        "import exfam; dir(exfam)": f"torch numpy scipy pyarrow duckdb rich {ESTIMATORS}",
        "from exfam import Groups, read, open_prepared": f"torch {ESTIMATORS}",
        "from exfam import EFA, LatentFactor, Marginal, EASE, FieldEFA": f"{ESTIMATORS} "
        "scipy.optimize",
        "from exfam import MaskedLanguageModel, LSTMLanguageModel": "sklearn pandas scipy.optimize",
    },
    {"from exfam import WordVectors, SkipGram, CBOW, PMIFactorization": "torch sklearn pandas"},
]


def test_the_public_names_are_sorted_and_those_that_their_modules_define():
    assert exfam.__all__ == sorted(set(exfam.__all__)) == dir(exfam)
    for name in set(exfam.__all__) - {"__version__"}:
        value = getattr(exfam, name)
        assert getattr(value, "__name__", name) == name
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__module__.startswith("exfam.")
    with pytest.raises(AttributeError, match="module 'exfam' has no attribute 'Nothing'"):
        _ = exfam.Nothing
    with pytest.raises(AttributeError, match=r"module 'exfam.groups' has no attribute 'Nothing'"):
        _ = exfam.groups.Nothing
    with pytest.raises(AttributeError, match=r"module 'exfam.words' has no attribute 'Nothing'"):
        _ = exfam.words.Nothing


def test_folders_have_the_names_that_they_list():
    for name in PACKAGES:
        module = importlib.import_module(name)
        listed = getattr(module, "__all__", [])
        assert len(listed) == len(set(listed)), name
        assert not [word for word in listed if not hasattr(module, word)], name


@pytest.mark.parametrize("imports", UNLOADED, ids=["estimators", "words"])
def test_an_import_loads_no_package_that_it_does_not_need(imports):
    code = "import sys"
    for statement, unloaded in imports.items():
        code += f"\n{statement}\nprint(sorted({set(unloaded.split())} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]"] * len(imports)


def test_the_changelog_knows_the_version():
    assert f"## {exfam.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
