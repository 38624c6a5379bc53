"""README and docs do what they say: their Python runs, their commands exist.

Python that needs nothing but what exfam depends on is run by `make wheel`, with nothing else
installed; `make docs` runs all pages, and shows what they print and draw.
"""

import importlib
import json
import pkgutil
import re
import shlex

import pytest
from cells import read_page

from exfam import plots
from exfam.cli.commands import form_of, split_command
from exfam.cli.parser import parse
from house.blocks import absent, blocks, python_blocks
from house.sources import ROOT, shown

README = ROOT / "README.md"
GUIDE = sorted((ROOT / "docs").glob("**/*.md"))
DOCUMENTS = [README, *GUIDE]
REFERENCE = sorted(path for path in (ROOT / "docs" / "api").glob("*.rst") if path.stem != "index")
PAGES = sorted((ROOT / "docs" / "gallery").glob("plot_*.py"))
LINK = re.compile(r"(?:\]\(|src(?:set)?=\")([^)#:\s\"]+)(?:#[^)]*)?[)\"]")
DOTTED = re.compile(r"\bexfam(?:_studies)?(?:\.[A-Za-z_]\w*)+")
MODULE = re.compile(r"automodule:: (\S+)")
LISTED = re.compile(r"^   ~?([A-Za-z_][\w.]*)$", re.MULTILINE)
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
EXAMPLE = re.compile(r'"""(.+?)\.?"""\n\n(.*)', re.DOTALL)
# Numbers of three figures and more.
FIGURE = re.compile(r"(?<![\w.,])-?\d*[.,]\d{3,}(?!\w)")
WIDTH = 88
TARGET = re.compile(r"^([\w-]+):", re.MULTILINE)


def shell_lines(text: str) -> list[list[str]]:
    joined = [
        block.replace("\\\n", " ") for _, block in blocks(text, "bash", "sh", "shell", "console")
    ]
    lines = [line.removeprefix("$ ") for block in joined for line in block.splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.mark.parametrize("path", GUIDE, ids=shown)
def test_pages_are_read_as_they_are_written(path):
    """Sphinx runs the cells, with outputs and pictures (`make docs`): here, that none is lost."""
    text = path.read_text(encoding="utf-8")
    cells = read_page(text).cells
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    assert code == [block.strip("\n") for _, block in blocks(text, "python")]
    assert not any("```python" in cell.source for cell in cells if cell.cell_type == "markdown")
    assert len({cell.id for cell in cells}) == len(cells)


@pytest.mark.parametrize("path", GUIDE, ids=shown)
def test_code_fits_the_page(path):
    wide = [
        line
        for _, block in blocks(path.read_text(encoding="utf-8"), "python", "bash", "text", "yaml")
        for line in block.splitlines()
        if len(line) > WIDTH
    ]
    assert not wide


def test_pages_whose_data_are_missing_are_shown_and_not_run(tmp_path, monkeypatch):
    page = "<!-- needs: a.csv b.csv -->\n# Title\n\n```python\nraise SystemExit\n```\n"
    monkeypatch.delenv("EXFAM_DATA", raising=False)
    assert "was not run here" in read_page(page).cells[0].source
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    (tmp_path / "a.csv").touch()
    assert "was not run here" in read_page(page).cells[0].source
    (tmp_path / "b.csv").touch()
    assert [cell.cell_type for cell in read_page(page).cells] == ["markdown", "code"]


def test_examples_of_the_readme_are_the_files():
    text = README.read_text(encoding="utf-8")
    listed = []
    for path in EXAMPLES:
        title, code = EXAMPLE.fullmatch(path.read_text(encoding="utf-8")).groups()
        listed.append(code)
        assert f"**[{title}](examples/{path.name})**\n\n```python\n{code}```\n" in text
    assert sorted(listed) == sorted(block.code for block in python_blocks(text))


def test_blocks_say_what_they_need():
    text = """
This block needs polars (`pip install polars`):

```python
first
```

```python
second
```

The rest of this page needs pandas, and the
extra `hf` (`pip install nothing "exfam[hf]" ./studies`).

```python
third = fit(max_epochs=90)
```
"""
    first, second, third = python_blocks(text)
    assert (first.needs, second.needs) == (("polars",), ())
    assert (second.line, second.code) == (8, "second\n")
    assert third.needs == ("nothing", '"exfam[hf]"', "./studies")
    assert absent(third.needs) == ["nothing"]
    assert 2 in third.compiled(README).co_consts


def test_pages_say_which_data_they_read(tmp_path, monkeypatch):
    (block,) = python_blocks("<!-- needs: a.csv b.csv -->\n# Title\n\n```python\nfirst\n```\n")
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    (tmp_path / "a.csv").touch()
    assert absent(block.needs) == ["the data b.csv"]
    (tmp_path / "b.csv").touch()
    assert absent(block.needs) == []


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


def test_figures_of_the_choice_of_models_stand_among_the_results():
    text = (ROOT / "docs" / "guide" / "which_model.md").read_text(encoding="utf-8")
    measured = {
        figure
        for name in ("arena", "results")
        for figure in FIGURE.findall((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8"))
    }
    kept = json.loads((ROOT / "benchmarks/results/events.json").read_text(encoding="utf-8"))
    numbers = [n for row in kept["rows"] for n in row.values() if isinstance(n, float)]
    measured |= {f"{n:.3f}" for n in numbers}
    figures = set(FIGURE.findall(text))
    assert len(figures) > 50
    assert figures <= measured, sorted(figures - measured)


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
