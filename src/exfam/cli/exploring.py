"""`exfam explore`: a model answers "what if" in the browser."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from exfam.checks import ExfamError
from exfam.cli.errors import reworded
from exfam.cli.kinds import text
from exfam.cli.options import FILE, MODEL, READING, Form, Option, count, duplicates, switch

_OF_PAGES = """The page is for this machine alone: nothing else can ask, nothing is written, and
nothing leaves. Its address holds what one did there, so that it can be opened again while the
command runs. Ctrl-C ends it. It needs `pip install exfam[explore]`."""


def _explore(chosen: Any) -> None:
    from exfam.cli.output import note
    from exfam.cli.sorts import sort_of
    from exfam.explorer import explore

    model, data, lines = _opened(chosen), chosen.data, []
    if data is not None and hasattr(model, "kind"):
        sort = sort_of(model, "explore", chosen)
        held, description = sort.read(model, chosen, file=chosen.data)
        data = sort.reported(held)
        lines.append(description)
    options = {"port": chosen.port, "open_browser": chosen.browser}
    with reworded({"`model`": "`MODEL`", "`port`": "`--port`", "`attributes`": "`--attributes`"}):
        page = explore(model, data, attributes=chosen.attributes, **options)
    note(*lines, "serving until Ctrl-C")
    print(page.address, flush=True)
    page.wait()


def _opened(chosen: Any) -> Any:
    """The saved model, the vectors of a file, or the encoder."""
    from exfam.cli.probes import open_encoder
    from exfam.cli.sources import open_model
    from exfam.cli.vectors import vectors_in_file

    if (chosen.model is None) == (chosen.encoder is None):
        got = "none" if chosen.model is None else f"{chosen.model!r} beside an encoder"
        raise ExfamError(f"`MODEL` must be given, or `--encoder` in its place, got {got}.")
    if chosen.encoder is not None:
        return open_encoder(chosen.encoder, term="both")
    return vectors_in_file(chosen.model) if Path(chosen.model).is_file() else open_model(chosen)


EXPLORE = Form(
    "explore",
    "Ask a fitted model what if, in the browser",
    [
        replace(
            MODEL, help="a saved model, or a file of word vectors as of `neighbors`", required=False
        ),
        replace(
            FILE,
            name="data",
            help=f"{FILE.help}; of models of words, a table that says something of words",
            metavar="DATA",
            required=False,
        ),
        Option(
            "encoder",
            text,
            "in place of MODEL, an encoder as `probe positions` takes it, of exfam or transformers",
            metavar="FOLDER",
        ),
        Option(
            "attributes",
            text,
            "a table that says something of items, by which their map is colored; it may be DATA",
            metavar="FILE",
        ),
        count("port", "of the loopback, 0 for one that is free", default=0),
        switch("browser", "whether to open the page in the browser", default=True),
        duplicates("keep"),
        *READING,
    ],
    run=_explore,
    example="exfam explore model ratings.csv",
    notes=_OF_PAGES,
)
