"""Where items lie, and which go together."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from exfam.embeddings import ItemEmbedding
from exfam.plots import item_map
from exfam.report.lifts import lifts_among, related_items
from exfam.report.material import Material
from exfam.report.page import NamedPoints, Pairs, Part, Picture, Section, TableData, left_out
from exfam.report.words import clean, figure, percent, quantity
from exfam.vectors.neighbors import nearest_rows
from exfam.vectors.spectra import main_plane

_MAP, _COMPLEMENTS = "Map of items", "Items that go together"
_ON_MAP, _DRAWN, _IN_TABLE, _NEIGHBORS = 400, 150, 12, 4
_ON_NARROW_MAP = 60
# Items whose lifts are computed, and numbers in all: some seconds of work.
_MOST_CANDIDATES, _FEWEST_CANDIDATES, _WORK = 300, 10, 2e7
_RELATED = 3
_IN_PICTURES = 30


def map_section(material: Material) -> Section:
    """A plane of item vectors, and each frequent item's nearest neighbors."""
    vectors = _vectors(material)
    if vectors is None:
        return left_out(_MAP, f"{type(material.model).__name__} has no vectors of items.")
    codes = material.most_frequent(_ON_MAP)
    if len(codes) < 3:
        return left_out(_MAP, "fewer than three items occur.")
    text = [
        f"Vectors of {_among(codes, len(vectors))}: near each other if the model expects them in "
        "the same contexts. A plane shows part of this only; the neighbors are those of the whole "
        "vectors."
    ]
    parts: list[Part] = [_map(material, vectors, codes), _neighbors(material, vectors, codes)]
    return Section(_MAP, text=text, parts=parts)


def _among(codes: np.ndarray, n_items: int) -> str:
    whole = len(codes) == n_items
    return f"{'all' if whole else f'the {len(codes)} most frequent of'} {n_items:,} items"


def _vectors(material: Material) -> Float[np.ndarray, "items dim"] | None:
    """Center vectors of the item part; without one, the value part's vectors of items."""
    if not len(material.names):
        return None
    vectors = getattr(material.model, "item_vectors_", None)
    if vectors is not None:
        return vectors.reshape(len(vectors), -1)
    part: Any = material.member.value_part
    fields = getattr(getattr(part, "embedding", None), "fields", [])
    if len(fields) and isinstance(fields[0], ItemEmbedding):
        return fields[0].vectors().detach().cpu().numpy()
    return None


def _map(
    material: Material, vectors: Float[np.ndarray, "items dim"], codes: Int64[np.ndarray, "shown"]
) -> Picture:
    points, share = main_plane(vectors[codes])
    names = material.names.all(codes, most=_IN_PICTURES)
    weight = material.frequency[codes]
    axes = ("first principal component", "second principal component")
    few, drawn = slice(_ON_NARROW_MAP), slice(_DRAWN)
    sized = "how often an item occurs" if material.data is not None else "how likely an item is"
    return Picture(
        "Vectors of items in a plane",
        item_map(
            points[drawn], names[drawn], weight=weight[drawn], labels=axes, width=9.4, height=6.6
        ),
        f"Areas of dots: {sized}. Names as they fit, the most frequent first. The plane holds "
        f"{percent(share, 0)} of the variance of the vectors, each scaled to length 1.",
        narrow=item_map(
            points[few], [clean(name, most=16) for name in names[few]],
            weight=weight[few], labels=axes, width=4.4, height=5.2,
        ),
        named=NamedPoints(names, points, weight.astype(np.float64)),
    )  # fmt: skip


def _neighbors(
    material: Material, vectors: Float[np.ndarray, "items dim"], codes: Int64[np.ndarray, "shown"]
) -> TableData:
    of = codes[:_IN_TABLE]
    # Vectors of items hardly ever seen say little: neighbors are looked for among frequent ones.
    among = material.most_frequent(max(_ON_MAP, 1000))
    searched = vectors[among].astype(np.float32)
    own = np.arange(len(of))[:, None]
    near = nearest_rows(searched[: len(of)], searched, k=_NEIGHBORS, excluded=own)
    rows: list[list[str | Pairs]] = [
        [material.names(int(code)), _listed(material, among[nearest], cosine)]
        for code, nearest, cosine in zip(of, near.rows, near.score, strict=True)
    ]
    caption = f"Cosines between vectors, among {quantity(len(among), 'item')}."
    return TableData(
        ["item", "nearest"], rows, words=["item", "nearest"], caption=caption,
        title="Nearest neighbors of the most frequent items",
    )  # fmt: skip


def _listed(material: Material, codes: np.ndarray, strength: np.ndarray, sign: str = "") -> Pairs:
    names = material.names.all(codes, most=40)
    return Pairs([(name, sign + figure(x, 2)) for name, x in zip(names, strength, strict=True)])


def complements_section(material: Material) -> Section:
    """Complements and substitutes of the most frequent items."""
    name, n_items = type(material.model).__name__, len(material.names)
    if not material.has_items:
        return left_out(_COMPLEMENTS, f"this {name} does not predict items.")
    affordable = _WORK / max(n_items * len(material.model.members_), 1)
    n_candidates = int(np.clip(affordable, _FEWEST_CANDIDATES, _MOST_CANDIDATES))
    codes = material.most_frequent(n_candidates)
    if len(codes) < 2:
        return left_out(_COMPLEMENTS, "fewer than two items occur.")
    lift = lifts_among(material.model, codes)
    others = lift[~np.eye(len(lift), dtype=bool)].reshape(len(lift), -1)
    # As where the context only excludes.
    if np.ptp(others, axis=1).max() < 1e-4:
        return left_out(_COMPLEMENTS, f"to this {name} no item calls for one more than for others.")
    text = [
        "Complements make each other more likely: the mean of both lifts, log p(one | the other "
        "alone) − log p(one | nothing), in nats. Substitutes are called for by the same third "
        "items but not by each other: correlation of the lifts given by these. Among "
        f"{_among(codes, n_items)}."
    ]
    return Section(_COMPLEMENTS, text=text, parts=[_related(material, codes, lift)])


def _related(
    material: Material, codes: np.ndarray, lift: Float[np.ndarray, "items items"]
) -> TableData:
    related = related_items(lift, of=min(_IN_TABLE, len(codes)), k=_RELATED)
    rows: list[list[str | Pairs]] = [
        [
            material.names(int(codes[row])),
            _listed(material, codes[related.complements[row]], related.lift[row], "+"),
            _listed(material, codes[related.substitutes[row]], related.likeness[row]),
        ]
        for row in range(len(related.lift))
    ]
    columns = ["item", "goes with", "stands in for"]
    return TableData(
        columns, rows, words=columns, title="Complements and substitutes of the most frequent items"
    )
