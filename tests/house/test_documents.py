"""README and docs do what they say: their Python runs, their commands exist."""

import importlib
import pkgutil
import re
import shlex
from pathlib import Path

import pytest

from exfam import plots
from exfam.cli.commands import form_of, split_command
from exfam.cli.parser import parse
from house.sources import ROOT, shown

README = ROOT / "README.md"
GUIDE = sorted((ROOT / "docs").glob("**/*.md"))
DOCUMENTS = [README, *GUIDE]
REFERENCE = sorted(path for path in (ROOT / "docs" / "api").glob("*.rst") if path.stem != "index")
PAGES = sorted((ROOT / "docs" / "gallery").glob("plot_*.py"))
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
DOTTED = re.compile(r"\bexfam(?:_studies)?(?:\.[A-Za-z_]\w*)+")
MODULE = re.compile(r"automodule:: (\S+)")
LISTED = re.compile(r"^   ~?([A-Za-z_][\w.]*)$", re.MULTILINE)
# How long fits of the documents go on makes their numbers, which nobody looks at here.
EPOCHS = re.compile(r'\b((?:max_epochs|epochs)"?(?:=|: ))\d+')
TARGET = re.compile(r"^([\w-]+):", re.MULTILINE)


def blocks(text: str, *languages: str) -> list[tuple[int, str]]:
    """Line and content of every fenced block in one of the languages."""
    return [
        (text.count("\n", 0, match.start(2)), match[2])
        for match in BLOCK.finditer(text)
        if match[1] in languages
    ]


def shell_lines(text: str) -> list[list[str]]:
    joined = [
        block.replace("\\\n", " ") for _, block in blocks(text, "bash", "sh", "shell", "console")
    ]
    lines = [line.removeprefix("$ ") for block in joined for line in block.splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def run(block: str, path: Path, line: int, namespace: dict[str, object]) -> None:
    """Execute a block; blank lines above it make an error show the document's line number."""
    shortened = EPOCHS.sub(r"\g<1>2", block)
    exec(compile("\n" * line + shortened, str(path), "exec"), namespace)


@pytest.mark.usefixtures("families")
@pytest.mark.parametrize("path", GUIDE, ids=shown)
def test_python_blocks_run_in_order(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, block in blocks(path.read_text(encoding="utf-8"), "python"):
        run(block, path, line, namespace)


@pytest.mark.parametrize("line, block", blocks(README.read_text(encoding="utf-8"), "python"))
def test_examples_of_the_readme_stand_alone(line, block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(block, README, line, {"__name__": "__main__"})


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CHANGELOG.md"], ids=shown)
def test_links_names_and_commands_exist(path):
    text = path.read_text(encoding="utf-8")
    assert not [link for link in LINK.findall(text) if not (path.parent / link).exists()]
    for name in sorted(set(DOTTED.findall(text))):
        assert pkgutil.resolve_name(name) is not None
    targets = TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8"))
    for words in shell_lines(text):
        if words[0] == "make":
            named = [word for word in words[1:] if "=" not in word]
            assert set(named) <= set(targets), shlex.join(words)
        elif words[0] == "exfam":
            name, rest = split_command(words[1:])
            parse(form_of(name, rest), rest)


def test_the_readme_is_short():
    assert README.stat().st_size <= 10_000


@pytest.mark.parametrize("path", REFERENCE, ids=shown)
def test_the_reference_names_what_exists(path):
    text = path.read_text(encoding="utf-8")
    for name in MODULE.findall(text):
        importlib.import_module(name)
    for name in LISTED.findall(text):
        module, _, last = f"exfam.{name}".rpartition(".")
        assert hasattr(importlib.import_module(module), last), name


@pytest.mark.parametrize("path", PAGES, ids=shown)
def test_pages_of_the_gallery_show_their_figures(path):
    text = path.read_text(encoding="utf-8")
    # Our figures are not pyplot's until it is given them.
    assert not re.search(rf"^({'|'.join(plots.__all__)})\(", text, re.MULTILINE)
    assert "plt.show()" in text
