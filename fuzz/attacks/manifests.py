"""Prepared folders with crafted manifests, and right checksums: opened, padded, fitted."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import exfam
from exfam.reading.folders import PREPARED
from fuzz.samples import make, sample_of
from fuzz.values import changed_document, pick
from fuzz.verdicts import check_finite


def prepare(folder: Path) -> Path:
    """A prepared folder that is right, beside a file that no manifest may name."""
    place = folder / "prepared"
    exfam.prepare(
        sample_of("efa").X, place, group="user", item="movie", value="stars", order="day",
        attributes=["genre", "gap"], group_attributes="age", position="day",
    )  # fmt: skip
    np.save(folder / "outside.npy", np.zeros(24))
    return place


def attack(random: np.random.Generator, shared: Path, folder: Path) -> None:
    """Open one folder and use it."""
    place = folder / "prepared"
    shutil.copytree(shared, place)
    shutil.copy(shared.with_name("outside.npy"), folder)
    craft(random, place / PREPARED.manifest)
    groups = exfam.open_prepared(place, verify=random.random() < 0.3)
    if random.random() < 0.5:
        groups.pad(np.arange(min(len(groups), 8)))
    else:
        estimator = make(pick(random, ("marginal", "latent-factor", "popularity", "efa")))
        check_finite("score", estimator.fit(place).score(place))


def craft(random: np.random.Generator, file: Path) -> None:
    """Change a document, and write it with the checksum that it then must have."""
    document: dict[str, Any] = json.loads(file.read_bytes())
    document.pop("checksum")
    document = changed_document(random, document)
    text = json.dumps(document)
    document["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    content = json.dumps(document)
    if random.random() < 0.02:
        depth = int(pick(random, (1000, 200_000)))
        content = '{"format": "exfam-model", "format": "exfam-prepared", "config": ' + "[" * depth
        content += "]" * depth + "}"
    file.write_text(content, encoding="utf-8")
