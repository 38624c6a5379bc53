"""`exfam explore`: a model answers "what if" in the browser."""

from dataclasses import replace
from typing import Any

from exfam.cli.errors import reworded
from exfam.cli.options import FILE, MODEL, READING, Form, count, duplicates, switch

_OF_PAGES = """The page is for this machine alone: nothing else can ask, nothing is written, and
nothing leaves. Its address holds what one did there, so that it can be opened again while the
command runs. Ctrl-C ends it. It needs `pip install exfam[explore]`."""


def _explore(chosen: Any) -> None:
    from exfam.cli.output import note
    from exfam.cli.sorts import sort_of
    from exfam.cli.sources import open_model
    from exfam.explorer import explore

    model, data, lines = open_model(chosen), None, []
    if chosen.data is not None:
        sort = sort_of(model, "explore", chosen)
        held, description = sort.read(model, chosen, file=chosen.data)
        data = sort.reported(held)
        lines.append(description)
    with reworded({"`model`": "`MODEL`", "`port`": "`--port`"}):
        page = explore(model, data, port=chosen.port, open_browser=chosen.browser)
    note(*lines, "serving until Ctrl-C")
    print(page.address, flush=True)
    page.wait()


EXPLORE = Form(
    "explore",
    "Ask a fitted model what if, in the browser",
    [
        MODEL,
        replace(FILE, name="data", metavar="DATA", required=False),
        count("port", "of the loopback, 0 for one that is free", default=0),
        switch("browser", "whether to open the page in the browser", default=True),
        duplicates("keep"),
        *READING,
    ],
    run=_explore,
    example="exfam explore model ratings.csv",
    notes=_OF_PAGES,
)
