"""Commands about folders and pages: `exfam prepare`, `info`, `report`, `demo`."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from exfam.cli.errors import reworded
from exfam.cli.kinds import text
from exfam.cli.options import (
    FILE,
    MODEL,
    OUTPUT,
    OVERWRITE,
    READING,
    Form,
    Option,
    count,
    duplicates,
    output,
    switch,
)
from exfam.cli.signatures import estimator_options
from exfam.cli.writable import check_may_write, check_output_file
from exfam.files import check_page_path

_COLUMNS = ("group", "order", "item", "value", "attributes", "group_attributes", "position")
_OF_FOLDERS = """The folder holds the columns read, sorted and encoded. It may stand wherever a file
of data can, is opened at once, and may be larger than memory. `exfam fit FOLDER` needs no
column names."""
_AS_TYPED = {"`data`": "`DATA`", "`source`": "`DATA`", "`train`": "`--train`", "`model`": "`MODEL`"}
_OF_PAGES = """One HTML file that needs nothing else: nothing is loaded from elsewhere.
Without DATA it is about the model alone. First it says how good the model is, beside what,
what attention adds, and what to be careful about. Scores stand beside cheap baselines, which
are fitted on --train, or on half of the groups or rows of DATA, which are then not scored.
Of a table, --train is also what DATA are compared with: which columns have moved.
MODEL may be a file of word vectors too, and DATA of a model of words is a text to score."""


def _prepare(chosen: Any) -> None:
    from exfam.cli.output import note
    from exfam.cli.sources import describe_rows
    from exfam.reading.prepared import prepare, prepared_facts

    check_may_write("--output", chosen.output)
    reading = (option.name for option in READING if option.name != "file_encoding")
    named = (*_COLUMNS, "duplicates", *reading, "overwrite")
    given = {name: value for name in named if (value := getattr(chosen, name)) is not None}
    given["encoding"] = chosen.file_encoding
    with reworded({"`folder`": "`output`"}):
        prepare(chosen.file, chosen.output, **given)
    facts = prepared_facts(chosen.output)
    assert facts is not None
    note(f"{chosen.file}: {describe_rows(facts)}", f"prepared in {chosen.output}")


def _info(chosen: Any) -> None:
    from exfam.cli.output import deliver, deliver_document, destination
    from exfam.cli.sources import open_model
    from exfam.reading.folders import is_prepared

    to = destination(chosen.format, chosen.output)
    path = Path(chosen.model)
    facts = _folder_facts(path) if is_prepared(path) else _model_facts(open_model(chosen), path)
    if to.format == "json":
        deliver_document(facts, to)
        return
    names, values = zip(*_flat(facts), strict=True)
    deliver({"name": names, "value": values}, to)


def _flat(facts: dict[str, Any], above: str = "") -> Iterator[tuple[str, str | None]]:
    for name, value in facts.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = {str(k): entry for k, entry in enumerate(value)}
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, None if value is None else str(value)


def _model_facts(model: Any, path: Path) -> dict[str, Any]:
    from exfam.cli.sorts import sort_of

    return {
        "estimator": type(model).__name__,
        **sort_of(model, "info", None).facts(model),
        **_file_facts(path, "config.json"),
        "parameters": {
            name: value if value is None or isinstance(value, bool | int | float) else str(value)
            for name, value in model.get_params(deep=False).items()
        },
        "history": [_history(run) for run in getattr(model, "histories_", [])],
    }


def _folder_facts(path: Path) -> dict[str, Any]:
    from exfam.reading.prepared import open_prepared, prepared_columns, prepared_facts

    groups = open_prepared(path, verify=True)
    columns, facts = prepared_columns(path), prepared_facts(path)
    return {
        "groups": len(groups),
        "elements": groups.n_elements,
        "items": groups.n_items if groups.item is not None else None,
        "longest": int(groups.lengths.max(initial=0)),
        "values": list(groups.values),
        "attributes": [*groups.attributes, *groups.group_attributes],
        **_file_facts(path, "manifest.json"),
        "read_with": None if columns is None else asdict(columns),
        "met_in_reading": None if facts is None else asdict(facts),
    }


def _file_facts(path: Path, name: str) -> dict[str, Any]:
    document = json.loads((path / name).read_bytes())
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    versions = {key: document.get(key) for key in ("format_version", "exfam_version")}
    return {"bytes": size} | versions


def _history(history: Any) -> dict[str, Any]:
    best = history.best
    return {
        "epochs": len(history),
        "stopped": history.stopped,
        "best_epoch": None if best is None else best.epoch,
        "validation_nats": None if best is None else best.validation_nats,
        "cpu_seconds": history.cpu_seconds,
    }


def _report(chosen: Any) -> None:
    from exfam.cli.output import note
    from exfam.cli.sorts import sort_named, sort_of
    from exfam.cli.sources import open_model
    from exfam.cli.vectors import vectors_in_file
    from exfam.report.model_report import write_report

    path = Path(chosen.output)
    check_output_file(path)
    check_page_path("--output", path)
    if Path(chosen.model).is_file():
        model, sort = vectors_in_file(chosen.model), sort_named("text")
    else:
        model = open_model(chosen)
        sort = sort_of(model, "report", chosen)
    read: dict[str, Any] = {"data": None, "train": None}
    lines = []
    for name in read:
        if (file := getattr(chosen, name)) is not None:
            held, description = sort.read(model, chosen, file=file)
            read[name] = sort.reported(held)
            lines.append(description)
    options = {name: getattr(chosen, name) for name in ("title", "baselines", "seed")}
    with reworded(_AS_TYPED):
        write_report(model, read["data"], path=path, train=read["train"], **options)
    note(*filter(None, lines), f"written to {path}")


def _demo(chosen: Any) -> None:
    from exfam.cli import demonstration

    check_may_write("--out", Path(chosen.out) / "model")
    demonstration.run(out=Path(chosen.out), seed=chosen.seed)


PREPARE = Form(
    "prepare",
    "Read, sort and encode a file once, into a folder that fits map into memory",
    [
        FILE,
        output("the folder to write", "FOLDER"),
        OVERWRITE,
        duplicates("error"),
        *READING,
        *(option for option in estimator_options("efa") if option.name in _COLUMNS),
    ],
    run=_prepare,
    example="""\
exfam prepare ratings.csv --group user --order time --item movie --value stars -o prepared
exfam fit prepared --family "ordinal(n=5, start=1)" --max-epochs 20 -o fitted""",
    notes=_OF_FOLDERS,
    config=True,
)
INFO = Form(
    "info",
    "What a saved model or a prepared folder holds",
    [replace(MODEL, help="a saved model, or a prepared folder"), *OUTPUT],
    run=_info,
    example="exfam info model\nexfam info model --format json",
    notes="With --format json, one object; else names and values.",
)
REPORT = Form(
    "report",
    "Write a page about a model and what it says of data",
    [
        MODEL,
        replace(FILE, name="data", metavar="DATA", required=False),
        output("the page to write", "FILE.html"),
        Option("title", text, "its heading (default: the model's kind)", metavar="TEXT"),
        Option("train", text, "what baselines are fitted on", metavar="FILE"),
        switch("baselines", "whether to fit baselines", default=True),
        count("seed", "of random choices of groups", default=0),
        duplicates("keep"),
        *READING,
    ],
    run=_report,
    example="exfam report model ratings.csv -o report.html",
    notes=_OF_PAGES,
)
_WHERE = "where the model folder and the page go (default out)"
DEMO = Form(
    "demo",
    "Simulate ratings, fit, print what was found, write a model and a page",
    [
        Option("out", text, _WHERE, default="out", metavar="FOLDER"),
        count("seed", "seed of data and fits", default=0),
    ],
    run=_demo,
    example="exfam demo --out out",
)
