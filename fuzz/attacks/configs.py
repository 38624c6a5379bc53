"""Saved models of every kind with a crafted config.json, and right checksums: loaded and used."""

import shutil
from pathlib import Path

import numpy as np

import exfam
from exfam.estimator.registry import REGISTRY as KINDS
from fuzz.attacks.manifests import craft
from fuzz.samples import fitted, sample_of, use
from fuzz.values import pick


def prepare(folder: Path) -> Path:
    """A saved model of every kind."""
    for kind in KINDS:
        fitted(kind).save(folder / kind)
    return folder


def attack(random: np.random.Generator, shared: Path, folder: Path) -> None:
    """Load one model, and use it if it loads."""
    kind = pick(random, [*KINDS])
    place = folder / "model"
    shutil.copytree(shared / kind, place)
    craft(random, place / "config.json")
    use(exfam.load(place), sample_of(kind))
