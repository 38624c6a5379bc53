"""`exfam info`."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from exfam.cli.common import MODEL, OUTPUT
from exfam.cli.options import Form

_NOTES = """With --format json, one object; else names and values."""


def form(words: Sequence[str]) -> Form:
    """The options of `exfam info`."""
    return Form(
        "info",
        "What a saved model or a prepared folder holds",
        [replace(MODEL, help="a saved model, or a prepared folder"), *OUTPUT],
        example="exfam info model\nexfam info model --format json",
        notes=_NOTES,
    )


def run(chosen: Any) -> None:
    """Print what a model or a prepared folder holds."""
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
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for k, entry in enumerate(value):
                yield from _flat(entry, f"{above}{name}.{k}.")
        else:
            yield above + name, None if value is None else str(value)


def _model_facts(model: Any, path: Path) -> dict[str, Any]:
    from exfam.cli.sorts import sort_of

    document = json.loads((path / "config.json").read_bytes())
    facts: dict[str, Any] = {
        "estimator": type(model).__name__,
        **sort_of(model, "info", None).facts(model),
        "bytes": _size(path),
        "format_version": document.get("format_version"),
        "exfam_version": document.get("exfam_version"),
        "parameters": {name: _plain(value) for name, value in model.get_params(deep=False).items()},
    }
    return facts | {"history": [_history(run) for run in getattr(model, "histories_", [])]}


def _folder_facts(path: Path) -> dict[str, Any]:
    from exfam.reading.prepared import open_prepared, prepared_columns, prepared_facts

    groups = open_prepared(path, verify=True)
    columns, facts = prepared_columns(path), prepared_facts(path)
    document = json.loads((path / "manifest.json").read_bytes())
    return {
        "groups": len(groups),
        "elements": groups.n_elements,
        "items": groups.n_items if groups.item is not None else None,
        "longest": int(groups.lengths.max(initial=0)),
        "values": list(groups.values),
        "attributes": [*groups.attributes, *groups.group_attributes],
        "bytes": _size(path),
        "format_version": document.get("format_version"),
        "exfam_version": document.get("exfam_version"),
        "read_with": None if columns is None else asdict(columns),
        "met_in_reading": None if facts is None else asdict(facts),
    }


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _history(history: Any) -> dict[str, Any]:
    best = history.best
    return {
        "epochs": len(history),
        "stopped": history.stopped,
        "best_epoch": None if best is None else best.epoch,
        "validation_nats": None if best is None else best.validation_nats,
        "cpu_seconds": history.cpu_seconds,
    }
