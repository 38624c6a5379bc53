"""Files of JSON lines: good ones whose records or bytes are changed."""

import json
from pathlib import Path

import numpy as np

from fuzz.files import changed_bytes, columns_of, packed, read_as, write_bytes
from fuzz.values import changed_document, pick

_KINDS = ("groups", "fields", "tables")


def prepare(folder: Path) -> dict[str, list[dict[str, object]]]:
    """The records of good files."""
    return {
        kind: json.loads(columns_of(kind).to_json(orient="records", date_format="iso"))
        for kind in _KINDS
    }


def attack(
    random: np.random.Generator, shared: dict[str, list[dict[str, object]]], folder: Path
) -> None:
    """Read one file."""
    kind = pick(random, _KINDS)
    records = shared[kind]
    if random.random() < 0.6:
        records = changed_document(random, records)
    content = "\n".join(json.dumps(record, default=str) for record in records).encode()
    if random.random() < 0.1:
        content = json.dumps(records, default=str).encode()
    if random.random() < 0.5:
        content = changed_bytes(random, content)
    suffix = pick(random, (".jsonl", ".jsonl", ".ndjson", ".json"))
    read_as(random, kind, write_bytes(random, folder, packed(random, content), suffix=suffix))
