"""Data sets of communities: files of the suite, split into sites of training and test."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.arena.kind import Folds
from benchmarks.arena.read import suite_rows
from benchmarks.arena.values.read import suite_frame
from jaxtyping import Bool, Float

N_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Sites:
    """Covariates, and which species are present; `known`: those that predictions may see."""

    covariates: pd.DataFrame
    present: Float[np.ndarray, "sites species"]
    known: Bool[np.ndarray, "sites species"] | None = None

    def __len__(self) -> int:
        return len(self.covariates)

    def shown(self) -> Float[np.ndarray, "sites species"]:
        """What is known of species, NaN elsewhere."""
        assert self.known is not None
        return np.where(self.known, self.present, np.nan)


@dataclass(frozen=True, eq=False, kw_only=True)
class CommunityData:
    """A data set, split; `blocks`: the covariate that it is split by, later values being tested."""

    train: Sites
    validation: Sites
    test: Sites
    species: tuple[str, ...]
    blocks: str | None = None

    @property
    def n_items(self) -> int:
        return len(self.species)

    @property
    def both(self) -> Sites:
        """Training and validation sites."""
        parts = (self.train, self.validation)
        covariates = pd.concat([part.covariates for part in parts], ignore_index=True)
        return Sites(covariates, np.concatenate([part.present for part in parts]))

    def sizes(self) -> dict[str, Any]:
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {
            "n_items": self.n_items,
            "groups": {name: len(part) for name, part in parts.items()},
            "elements": {name: part.present.size for name, part in parts.items()},
            "left_out": {},
        }


def wide(file: str) -> tuple[pd.DataFrame, list[str], list[str], list[str]]:
    """A file with a row for each site; names of species, covariates and coordinates."""
    file = f"communities/{file}.csv.gz"
    row = next(row for row in suite_rows() if row["file"] == file)
    frame = suite_frame(file)
    named, names = row["item_columns"], list(frame.columns)
    if named.startswith("columns "):
        first, last = (int(word) for word in named.removeprefix("columns ").split(" to "))
        species = names[first - 1 : last]
        side = [name for name in names[last:] if name not in row["coordinates"]]
    else:
        first, last = (names.index(name) for name in named.split(".."))
        species, side = names[first : last + 1], row["side"]
    return frame, species, side, row["coordinates"]


def in_folds(file: str, *, n_tests: int = N_FOLDS) -> Folds:
    """Sites are in the test part once, by random folds; the fold after it is for validation.

    `n_tests`: how many of the folds are tested
    """
    frame, species, side, _ = wide(file)
    fold = np.random.default_rng(0).permutation(len(frame)) % N_FOLDS
    splits = []
    for number in range(n_tests):
        parts = [fold == number, fold == (number + 1) % N_FOLDS]
        splits.append(split(frame, species, side, parts=[~parts[0] & ~parts[1], *parts[::-1]]))
    return Folds(splits)


def in_space(file: str) -> CommunityData:
    """The fifth of the sites farthest east is tested; a fifth of the others is for validation."""
    frame, species, side, coordinates = wide(file)
    east = frame[coordinates[0]] >= frame[coordinates[0]].quantile(0.8)
    return split(frame, species, side, parts=_fifth_held(~east.to_numpy()))


def published(file: str) -> CommunityData:
    """The split of the source; a fifth of its training sites is for validation."""
    frame, species, side, _ = wide(file)
    inside = (frame["split"] == "train").to_numpy()
    return split(frame, species, side, parts=_fifth_held(inside))


def ants() -> CommunityData:
    """Ants at baits of the Portal project: place and year are known, later years are tested."""
    frame = suite_frame("communities/portal_ant_bait.csv.gz")
    group = ["year", "plot", "stake"]
    whole = frame.pivot_table("abundance", group, "species", aggfunc="sum", fill_value=0)
    sites = whole.index.to_frame(index=False)
    sites = sites.astype({"plot": "category", "stake": "category"})
    year = sites["year"].to_numpy()
    train, test = year < 2004, year >= 2006
    species = whole.columns[(whole[train] > 0).any()].tolist()
    frame = pd.concat([sites, (whole[species] > 0).astype(float).reset_index(drop=True)], axis=1)
    data = split(frame, species, group, parts=[train, ~train & ~test, test])
    return replace(data, blocks="year")


def split(
    frame: pd.DataFrame, species: Sequence[str], side: Sequence[str], *, parts: Sequence[Any]
) -> CommunityData:
    """Sites of training, validation and test."""
    sites = [
        Sites(
            frame.loc[rows, list(side)].reset_index(drop=True),
            (frame.loc[rows, list(species)].to_numpy(dtype=float) > 0).astype(float),
        )
        for rows in parts
    ]
    return CommunityData(train=sites[0], validation=sites[1], test=sites[2], species=tuple(species))


def _fifth_held(inside: np.ndarray) -> list[np.ndarray]:
    held = np.zeros(len(inside), dtype=bool)
    rows = np.flatnonzero(inside)
    held[np.random.default_rng(0).permutation(rows)[: len(rows) // 5]] = True
    return [inside & ~held, held, ~inside]
