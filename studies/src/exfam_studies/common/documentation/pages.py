"""Blocks of pages that are made from kept files, and what their tables are assembled from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from exfam.files import write_atomically
from exfam_studies.common.provenance import Run
from exfam_studies.common.rows import Row, higher_is_better, read_rows

DOCS = Path(__file__).parents[5] / "docs"
KEPT = DOCS / "results"

# What the columns are headed, and the cells of each line.
Table = tuple[Sequence[str], Sequence[Sequence[str]]]


class Block:
    """What stands in a page between two markers, made of kept files."""

    def __init__(self, page: Path, name: str, *parts: Callable[[], str]) -> None:
        self.page, self.name, self._parts = page, name, parts
        self.begin, self.end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"

    def filled(self, text: str) -> str:
        """`text`, of a page, with the block between its markers."""
        before, _, rest = text.partition(self.begin)
        _, _, after = rest.partition(self.end)
        content = "\n\n".join(part() for part in self._parts)
        return f"{before}{self.begin}\n{content}\n{self.end}{after}"

    def write(self) -> None:
        """Put the block into its page."""
        write_atomically(self.page, self.filled(self.page.read_text(encoding="utf-8")))


def kept_rows(name: str) -> list[Row]:
    """The rows that are kept of an experiment, those without any figure left out."""
    rows = read_rows(KEPT / f"{name}.json")
    return [row for row in rows if (row.value, row.paper) != (None, None)]


def part(tables: Mapping[str, Sequence[Callable[[Sequence[Row]], Table]]]) -> Callable[[], str]:
    """What makes the tables of kept file -> makers, and names their runs."""

    def render() -> str:
        texts, rows = list[str](), list[Row]()
        for name, makers in tables.items():
            read = kept_rows(name)
            texts += [markdown_table(*make(read)) for make in makers]
            rows += read
        return "\n\n".join([*texts, runs_note(rows)])

    return render


def markdown_table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table as Markdown."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def runs_note(rows: Iterable[Row]) -> str:
    """One sentence for each run that a table's figures come from."""
    runs = {row.run.commit: row.run for row in rows if row.run is not None}
    return "\n".join(map(run_sentence, runs.values()))


def run_sentence(run: Run) -> str:
    """When, with what code and where figures were computed."""
    where = f"Figures of {run.date}, commit {run.commit}, {run.machine}."
    return f"{where} {run.remark}".rstrip()


def seeds_note(rows: Iterable[Row | None]) -> str:
    """What follows the name of a model whose figures are of a single seed."""
    return ", one seed" if any(row is not None and row.is_of_one_seed for row in rows) else ""


def all_of(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """The rows whose fields, or settings, are as wanted; None for a setting that is not there."""
    return [
        row
        for row in rows
        if all(getattr(row, key, row.settings.get(key)) == value for key, value in wanted.items())
    ]


def find(rows: Iterable[Row], **wanted: Any) -> Row | None:
    """The first row with a figure whose fields, or settings, are as wanted."""
    return next((row for row in all_of(rows, **wanted) if row.value is not None), None)


def best_of(rows: Iterable[Row | None]) -> Row | None:
    """The row of the best figure, all being of metrics of one direction."""
    scored = [row for row in rows if row is not None and row.value is not None]
    pick = max if scored and higher_is_better(scored[0].metric) else min
    return pick(scored, key=lambda row: row.value or 0.0, default=None)


def least_validation(row: Row) -> float:
    """What to take the minimum by: rows without a validation figure come last."""
    return float("inf") if row.validation is None else row.validation


def number(
    row: Row | None, form: str = ".3f", *, spread: float | None | str = "sd", bold: bool = False
) -> str:
    """A row's figure and its spread, by default over seeds; nothing where there is none."""
    if row is None or row.value is None:
        return ""
    wide = row.sd if spread == "sd" else spread
    text = f"{row.value:{form}}" + ("" if wide is None else f" ± {wide:{form.lstrip('+')}}")
    return f"**{text}**" if bold else text


def percent(row: Row | None) -> str:
    """A share and its standard deviation over seeds, in per cent."""
    if row is None or row.value is None:
        return ""
    return f"{100 * row.value:.1f}" + ("" if row.sd is None else f" ± {100 * row.sd:.1f}")


def first(rows: Iterable[Row | None], name: str, form: str) -> str:
    """A field of the first row that has it, such as what the paper prints; nothing without one."""
    values = (getattr(row, name) for row in rows if row is not None)
    return next((f"{value:{form}}" for value in values if value is not None), "")
