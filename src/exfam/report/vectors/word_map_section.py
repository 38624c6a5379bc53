"""A map of words: the plane in which their vectors vary most."""

import numpy as np
from jaxtyping import Float64

from exfam.plots import item_map
from exfam.report.page import NamedPoints, Picture, Section, left_out
from exfam.report.vectors.word_material import WordMaterial
from exfam.report.words import clean, percent
from exfam.vectors.spectra import main_plane

_TITLE = "Map of words"
# The commonest words are those of grammar, in the middle of every map; where there are enough
# others they are left out.
_COMMONEST, _ON_MAP, _DRAWN, _ON_NARROW_MAP = 50, 400, 150, 60


def word_map_section(material: WordMaterial) -> Section:
    """Frequent words as dots with as many names as fit."""
    n = len(material.rows)
    if n < 3:
        return left_out(_TITLE, "fewer than three words have vectors.")
    first = _COMMONEST if n >= _COMMONEST + _ON_MAP else 0
    ranks = np.arange(first, min(n, first + _ON_MAP))
    points, share = main_plane(material.cloud[ranks])
    names = [material.name(int(row), most=30) for row in material.rows[ranks]]
    weight = _weight(material, ranks)
    axes = ("first principal component", "second principal component")
    many, few = slice(_DRAWN), slice(_ON_NARROW_MAP)
    picture = Picture(
        "Vectors of words in a plane",
        item_map(
            points[many], names[many], weight=weight[many], labels=axes, width=9.4, height=6.6
        ),
        "Areas of dots: how often a word was read. Names as they fit, the most frequent first. "
        f"The plane holds {percent(share, 0)} of the variance of the vectors, each scaled to "
        "length 1: neighbors on it need not be neighbors.",
        narrow=item_map(
            points[few],
            [clean(name, most=16) for name in names[few]],
            weight=weight[few],
            labels=axes,
            width=4.4,
            height=5.2,
        ),
        named=NamedPoints(names, points, weight),
    )
    which = f"Words {first + 1:,} to {first + len(ranks):,} by frequency"
    return Section(_TITLE, text=[f"{which}, near each other if used alike."], parts=[picture])


def _weight(material: WordMaterial, ranks: np.ndarray) -> Float64[np.ndarray, "shown"]:
    if material.counts is None:
        return 1 / (1.0 + ranks)
    return material.counts[material.rows[ranks]].astype(np.float64)
