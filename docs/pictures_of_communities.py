"""Draws the pictures of guide/communities.md: python docs/pictures_of_communities.py ROWS.

ROWS is a folder of the arena's results of eucalypts; EXFAM_DATA names the folder of the data.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from exfam import Community
from exfam.plots import association_map, known_curves
from exfam.reading.public_sets.published import find_file

IMAGES = Path(__file__).parent / "images"
PLACE = ["Longitude", "Latitude"]
LABELS = {
    "community": "Community",
    "lightgbm": "LightGBM",
    "logistic-others": "logistic, others",
    "logistic-squares": "logistic",
}


def curves(rows: Path) -> dict[str, dict[float, float]]:
    """Nats of each contender by the share of the other species known."""
    scores = {}
    for contender, label in LABELS.items():
        paths = sorted((rows / "eucalypts").glob(f"{contender}-[0-9].json"))
        sums = [json.loads(path.read_text(encoding="utf-8"))["by_group"] for path in paths]
        scores[label] = {
            share / 100: float(
                np.mean([sum(s[f"nats_{share}"]) / sum(s["elements"]) for s in sums])
            )
            for share in (0, 25, 50, 75, 100)
        }
    return scores


if __name__ == "__main__":
    known_curves(curves(Path(sys.argv[1]))).savefig(IMAGES / "eucalypts-known.png", dpi=110)
    frame = pd.read_csv(find_file("suite/communities/eucalypts.csv"))
    species = list(frame.columns[1:13])
    model = Community(species=species).fit(frame.drop(columns=["site", *PLACE]))
    found = model.associations()
    figure = association_map(found.correlation, found.species, clear=found.is_clear)
    figure.savefig(IMAGES / "eucalypts-associations.png", dpi=110)
    print(found, found.pairs(4))
