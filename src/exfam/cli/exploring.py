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

_WORDS = {"`model`": "`MODEL`", "`data`": "`DATA`"} | {
    f"`{name}`": f"`--{name}`" for name in ("against", "attributes", "compare", "port")
}


def _explore(chosen: Any) -> None:
    from exfam.cli.output import note
    from exfam.estimator.saving import load
    from exfam.explorer import explore, write_explorer

    lines: list[str] = []
    model = _opened(chosen)
    data, compare = (_read(model, chosen, file, lines) for file in (chosen.data, chosen.compare))
    against = None if chosen.against is None else load(chosen.against)
    beside = {"against": against, "compare": compare}
    if chosen.export is not None:
        with reworded(_WORDS | {"`path`": "`--export`"}):
            print(write_explorer(model, data, path=chosen.export, **beside))
        note(*lines)
        return
    with reworded(_WORDS):
        page = explore(
            model, data, attributes=chosen.attributes, port=chosen.port,
            open_browser=chosen.browser, **beside,
        )  # fmt: skip
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


def _read(model: Any, chosen: Any, file: str | None, lines: list[str]) -> Any:
    """What a view takes of a file, if there is one; a line about it is added."""
    from exfam.cli.sorts import sort_of

    if file is None or not hasattr(model, "kind"):
        return file
    sort = sort_of(model, "explore", chosen)
    held, description = sort.read(model, chosen, file=file)
    lines.append(description)
    return sort.reported(held)


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
        Option(
            "against",
            text,
            "another saved model, to see where it predicts DATA better or worse",
            metavar="MODEL",
        ),
        Option("compare", text, "other data, to see what has moved since DATA", metavar="FILE"),
        Option(
            "export",
            text,
            "in place of serving, write a page of a small model, at most 5 MB, without a server",
            metavar="FILE",
        ),
        count("port", "of the loopback, 0 for one that is free", default=0),
        switch("browser", "whether to open the page in the browser", default=True),
        duplicates("keep"),
        *READING,
    ],
    run=_explore,
    example="exfam explore model ratings.csv\n"
    "exfam explore model ratings.csv --against model --compare ratings.csv\n"
    "exfam explore model ratings.csv --export page.html",
    notes=_OF_PAGES,
)
