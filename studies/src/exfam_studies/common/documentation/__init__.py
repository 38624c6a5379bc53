"""The tables of the documentation, made from the files kept in docs/results.

`python -m exfam_studies.common.documentation` writes all of them into their pages. The files come
from `exfam reproduce NAME --json docs/results/NAME.json`, and from the benchmarks.

To add a table: put its two markers into a page, name it in BLOCKS, write what makes its lines.
"""

from exfam_studies.common.documentation.baskets import baskets
from exfam_studies.common.documentation.overview import overview
from exfam_studies.common.documentation.pages import DOCS, Block, Part
from exfam_studies.common.documentation.positions import POSITIONS
from exfam_studies.common.documentation.shifts import cars, dropped_cells, simulated, whole_rows
from exfam_studies.common.documentation.temperatures import temperatures
from exfam_studies.common.documentation.words import models, shares

__all__ = ["BLOCKS", "write_tables"]

_RESULTS = DOCS / "results.md"
BLOCKS = (
    Block(_RESULTS, "results", overview),
    Block(_RESULTS, "temperatures", Part({"efa-temperature": (temperatures,)})),
    Block(
        _RESULTS,
        "shifted-tables",
        Part({"table-simulation": (simulated,)}),
        Part({"table-autompg": (cars,)}),
    ),
    Block(_RESULTS, "natural-shifts", Part({"table-shifts": (whole_rows, dropped_cells)})),
    Block(_RESULTS, "words", Part({"words-table2": (models,), "words-figure4": (shares,)})),
    Block(
        DOCS / "guide" / "positions.md",
        "positions",
        *(
            Part({name: (lines,)}, heading=f"{heading} (`{name}`)")
            for name, (heading, lines) in POSITIONS.items()
        ),
    ),
    Block(DOCS / "guide" / "baskets.md", "baskets", baskets),
)


def write_tables() -> None:
    """Put all tables into their pages."""
    for block in BLOCKS:
        block.write()
