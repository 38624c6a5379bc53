"""Which words are near which."""

import numpy as np
from jaxtyping import Int64

from exfam.report.page import Pairs, Part, Section, SideBySide, TableData
from exfam.report.vectors.word_material import WordMaterial
from exfam.report.words import figure, percent
from exfam.vectors.neighbors import nearest_rows
from exfam.vectors.spectra import Hubs, find_hubs

_SHOWN, _NEIGHBORS, _RANKS = 16, 5, 5_000
# Words among which hubs are looked for; the share of all that is worth a word.
_AMONG, _LARGE_HUB = 4_000, 0.05


def word_neighbor_section(material: WordMaterial, hubs: Hubs | None) -> Section:
    """Neighbors of words from the most frequent to rarer ones."""
    chosen = _spread(len(material.rows))
    rows = material.rows[chosen]
    near = nearest_rows(
        material.cloud[chosen], material.cloud, k=_NEIGHBORS, excluded=chosen[:, None]
    )
    names = [material.name(int(row)) for row in rows]
    read = [
        _frequency(material, int(row), int(rank)) for row, rank in zip(rows, chosen, strict=True)
    ]
    listed = [_listed(material, *both) for both in zip(near.rows, near.score, strict=True)]
    nearest = TableData(
        ["word", _label(material), "nearest"],
        [list(cells) for cells in zip(names, read, listed, strict=True)],
        words=["word", "nearest"],
        title="Words used alike",
        caption=f"Cosines, among the {len(material.rows):,} most frequent words.",
    )
    parts: list[Part] = [nearest]
    if beside := _beside(material, chosen):
        others = TableData(
            ["word", "often beside it"],
            [list(cells) for cells in zip(names, beside, strict=True)],
            words=["word", "often beside it"],
            title="Words used together",
            caption="Cosines, above 0, of context vectors with the word's own.",
        )
        parts = [SideBySide([nearest, others])]
    text = [_hub_text(material, hubs)] if hubs is not None else []
    return Section("Neighbors", text=text, parts=parts)


def _spread(n: int) -> Int64[np.ndarray, "chosen"]:
    """Ranks from the first to the 5,000th, in equal steps of their logarithm."""
    last = min(n, _RANKS)
    steps = np.geomspace(1, last, min(_SHOWN, last)).round().astype(np.int64)
    return np.unique(np.concatenate([steps, np.arange(1, min(_SHOWN, last) // 4 + 1)])) - 1


def _label(material: WordMaterial) -> str:
    return "rank" if material.counts is None else "read"


def _frequency(material: WordMaterial, row: int, rank: int) -> str:
    return f"{rank + 1:,}" if material.counts is None else f"{material.counts[row]:,}"


def _listed(
    material: WordMaterial, near: np.ndarray, cosine: np.ndarray, *, least: float = -2.0
) -> Pairs:
    return Pairs(
        [
            (material.name(int(material.rows[index]), most=24), figure(score, 2))
            for index, score in zip(near, cosine, strict=True)
            if index >= 0 and score > least
        ]
    )


def _beside(material: WordMaterial, chosen: np.ndarray) -> list[Pairs]:
    vectors = material.vectors
    if vectors.context is None and vectors.signs is None:
        return []
    contexts = vectors.matrix("context")[material.rows]
    near = nearest_rows(material.cloud[chosen], contexts, k=_NEIGHBORS)
    pairs = zip(near.rows, near.score, strict=True)
    return [_listed(material, *both, least=0.0) for both in pairs]


def word_hubs(material: WordMaterial) -> Hubs | None:
    """How often frequent words are among the ten nearest of others; None of few words."""
    return find_hubs(material.cloud[:_AMONG]) if len(material.rows) > 100 else None


def _hub_text(material: WordMaterial, hubs: Hubs) -> str:
    word = material.name(int(material.rows[hubs.largest]))
    return (
        f"“{word}” is among the {hubs.k} nearest of the most other words, of "
        f"{percent(hubs.share)} of the {len(hubs.count):,} most frequent ones."
    )


def hub_cautions(material: WordMaterial, hubs: Hubs | None) -> list[str]:
    """Whether some words are near too many."""
    if hubs is None or hubs.share < _LARGE_HUB:
        return []
    word = material.name(int(material.rows[hubs.largest]))
    many = percent(hubs.share, 0)
    return [f"Some words are near many: “{word}” is among the {hubs.k} nearest of {many} of all."]
