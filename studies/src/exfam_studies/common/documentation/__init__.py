"""The tables of the documentation, made from the files kept in docs/results.

To add a table: put its two markers into a page, name it in BLOCKS, write what makes its lines.
"""

from exfam_studies.common.documentation import tables
from exfam_studies.common.documentation.overview import overview
from exfam_studies.common.documentation.pages import DOCS, Block, part
from exfam_studies.common.documentation.shifts import cars, dropped_cells, simulated, whole_rows

_RESULTS = DOCS / "results.md"
_POSITIONS = {
    "positions-pretraining": tables.pretraining,
    "positions-dependencies": tables.dependencies,
    "positions-linguistic": tables.linguistic,
    "positions-swaps": tables.swaps,
    "positions-fitted": tables.fitted,
}
BLOCKS = (
    Block(_RESULTS, "results", overview),
    Block(_RESULTS, "temperatures", part({"efa-temperature": [tables.temperatures]})),
    Block(
        _RESULTS,
        "shifted-tables",
        part({"table-simulation": [simulated]}),
        part({"table-autompg": [cars]}),
    ),
    Block(_RESULTS, "natural-shifts", part({"table-shifts": [whole_rows, dropped_cells]})),
    Block(
        _RESULTS,
        "words",
        part({"words-table2": [tables.vectors], "words-figure4": [tables.reflected_shares]}),
    ),
    *(
        Block(DOCS / "guide" / "positions.md", name, part({name: [make]}))
        for name, make in _POSITIONS.items()
    ),
    Block(DOCS / "guide" / "baskets.md", "baskets", tables.baskets),
)
