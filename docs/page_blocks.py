"""Places in pages that scripts fill with tables made from the files in docs/results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from exfam.files import write_atomically
from exfam_studies.common.provenance import Run
from exfam_studies.common.rows import Row

__all__ = [
    "RESULTS_PAGE",
    "ROOT",
    "PageBlock",
    "markdown_table",
    "run_sentence",
    "runs_note",
    "seeds_note",
]

ROOT = Path(__file__).parents[1]
RESULTS_PAGE = ROOT / "docs" / "results.md"


@dataclass(frozen=True)
class PageBlock:
    """What stands in a page between two markers."""

    page: Path
    name: str

    @property
    def begin(self) -> str:
        """The marker before the block."""
        return f"<!-- {self.name}:begin -->"

    @property
    def end(self) -> str:
        """The marker after the block."""
        return f"<!-- {self.name}:end -->"

    def filled(self, text: str, tables: str) -> str:
        """`text`, of a page, with the tables between the markers."""
        before, _, rest = text.partition(self.begin)
        _, _, after = rest.partition(self.end)
        return f"{before}{self.begin}\n{tables}\n{self.end}{after}"

    def write(self, tables: str) -> None:
        """Put the tables into the page."""
        text = self.page.read_text(encoding="utf-8")
        write_atomically(self.page, self.filled(text, tables))


def seeds_note(rows: Iterable[Row | None]) -> str:
    """What follows the name of a model whose figures are of a single seed."""
    return ", one seed" if any(row is not None and row.is_of_one_seed for row in rows) else ""


def runs_note(rows: Iterable[Row]) -> str:
    """One sentence for each run that a table's figures come from."""
    runs = {row.run.commit: row.run for row in rows if row.run is not None}
    return "\n".join(map(run_sentence, runs.values()))


def run_sentence(run: Run) -> str:
    """When, with what code and where figures were computed."""
    where = f"Figures of {run.date}, commit {run.commit}, {run.machine}."
    return f"{where} {run.remark}".rstrip()


def markdown_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table as Markdown."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
