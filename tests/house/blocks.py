"""Python blocks of README and docs: found, and run where only exfam's dependencies are installed.

usage: python blocks.py FILE..., in such an environment. The README's blocks run one by one, a page
of the guide from top to bottom as one script. A page or block that needs more says so in the text
above it, "This page needs pandas (`pip install pandas`)", also with "The rest of this page" or
"This block", and is left out where that is not installed, as is a page without its data.
"""

import importlib.metadata
import os
import re
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Files in the folder of EXFAM_DATA that a page reads, named in a comment at its top.
DATA = re.compile(r"\A<!-- needs: (.+?) -->\n")
NEEDS = re.compile(
    r"\b(This page|The rest of this page|This block)\s+needs\s[^.]{1,80}?"
    r"\(`pip\s+install\s+([^`]+)`\)",
    re.IGNORECASE | re.DOTALL,
)
FILE = "the data "
# How long fits of the documents go on makes their numbers, which nobody looks at here.
EPOCHS = re.compile(r'\b((?:max_epochs|epochs)"?(?:=|: ))\d+')


@dataclass(frozen=True)
class Block:
    """Code of a document, the number of lines above it, and the packages and files it needs."""

    line: int
    code: str
    needs: tuple[str, ...] = ()

    def compiled(self, path: Path) -> object:
        """The code with short fits; blank lines above it make an error show the page's line."""
        return compile("\n" * self.line + EPOCHS.sub(r"\g<1>2", self.code), str(path), "exec")


def blocks(text: str, *languages: str) -> list[tuple[int, str]]:
    """Line and content of every fenced block in one of the languages."""
    return [
        (text.count("\n", 0, match.start(2)), match[2])
        for match in BLOCK.finditer(text)
        if match[1] in languages
    ]


def python_blocks(text: str) -> list[Block]:
    """All Python of a page, with what each block needs by the sentences above it."""
    lines = text.splitlines(keepends=True)
    result: list[Block] = []
    data = DATA.match(text)
    page = [f"{FILE}{name}" for name in data[1].split()] if data else []
    above = 0
    for line, code in blocks(text, "python"):
        alone: list[str] = []
        for scope, names in NEEDS.findall("".join(lines[above:line])):
            (alone if scope.lower() == "this block" else page).extend(names.split())
        result.append(Block(line, code, (*page, *alone)))
        above = line + code.count("\n")
    return result


def absent(names: tuple[str, ...]) -> list[str]:
    """Those of what blocks need that are not there, or not in full."""
    return [name for name in names if not all(map(_installed, _packages(name.strip("\"'"))))]


def _installed(name: str) -> bool:
    if name.startswith(FILE):
        path = Path(os.environ.get("EXFAM_DATA", "nowhere"), name.removeprefix(FILE))
        return path.exists() or path.with_name(f"{path.name}.gz").exists()
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _packages(name: str) -> list[str]:
    """What a name stands for: itself, or the distributions of an extra of ours."""
    extra = re.fullmatch(r"(?:exfam|\.)\[(\w+)\]", name)
    if extra is None:
        return [re.sub(r"^\./", "exfam-", name)]
    wanted = importlib.metadata.requires("exfam") or []
    marked = [
        text for text in wanted if re.search(rf"extra == ['\"]{re.escape(extra[1])}['\"]", text)
    ]
    return [re.split(r"[^\w.-]", text)[0] for text in marked]


def run_file(path: Path) -> list[str]:
    """Run the blocks of a file; a line if some were left out."""
    skipped: list[str] = []
    n_skipped = 0
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in python_blocks(path.read_text(encoding="utf-8")):
        if path.stem == "README":
            namespace = {"__name__": "__main__"}
        if lacking := absent(block.needs):
            n_skipped += 1
            skipped += lacking
        else:
            exec(block.compiled(path), namespace)
    needs = " and ".join(dict.fromkeys(skipped))
    return [f"{path.name}: {n_skipped} blocks left out, which need {needs}"] if skipped else []


def main(paths: list[str]) -> None:
    """Run files, each in an empty folder, with warnings as errors; print what was left out."""
    files = [Path(path).resolve() for path in paths]
    start = time.process_time()
    skipped = []
    for path in files:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("error")
            os.chdir(folder)
            skipped += run_file(path)
            os.chdir(path.parent)
    for line in (*skipped, f"{len(files)} ran in {time.process_time() - start:.0f} CPU s"):
        print(f"pages: {line}")


if __name__ == "__main__":
    main(sys.argv[1:])
