"""The shape of the cloud of vectors: lengths beside frequencies, and singular values."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from exfam.plots import length_by_frequency, spectrum_curves
from exfam.report.page import Facts, Picture, Section, SideBySide, TableData
from exfam.report.vectors.word_material import WordMaterial
from exfam.report.words import figure, percent
from exfam.vectors.evaluation import rank_correlation
from exfam.vectors.spectra import common_cosine, effective_dimensions, singular_values

# Words that are read less often have vectors that say little.
_RARELY, _MANY_RARE = 20, 0.2
_COMMON = 0.1
_EXTREMES = 6


@dataclass(frozen=True, eq=False)
class Cloud:
    """Figures of the cloud of the most frequent words."""

    spectra: dict[str, Float64[np.ndarray, "dim"]]
    common: float
    correlation: float


def word_cloud(material: WordMaterial) -> Cloud:
    """Singular values, the mean cosine of two words, and how length goes with frequency."""
    vectors, rows = material.vectors, material.rows
    spectra = {"center": singular_values(material.cloud)}
    if vectors.context is not None:
        spectra["context"] = singular_values(vectors.context[rows])
    correlation = rank_correlation(vectors.norms[rows].astype(np.float64), -_rarity(material))
    return Cloud(spectra, common_cosine(material.cloud), correlation)


def _rarity(material: WordMaterial) -> Float64[np.ndarray, "shown"]:
    """The larger, the rarer: ranks, or minus counts."""
    if material.counts is None:
        return np.arange(1.0, len(material.rows) + 1)
    return -material.counts[material.rows].astype(np.float64)


def length_section(material: WordMaterial, cloud: Cloud) -> Section:
    """Lengths of vectors over how often words were read."""
    rows = material.rows
    length = material.vectors.norms[rows].astype(np.float64)
    counted = material.counts is not None
    frequency = np.abs(_rarity(material))
    label = "times that the word was read" if counted else "rank of the word"
    drawn = length_by_frequency(length, frequency, label=label, seed=material.seed)
    caption = (
        "Words at random and the running median. The rank correlation of length and frequency is "
        f"{figure(cloud.correlation, 2)}. Cosines do not see lengths; sums of vectors do: long "
        "ones count more."
    )
    picture = Picture("Lengths of vectors by frequency", drawn, caption)
    return Section("Length and frequency", parts=[SideBySide([picture, _extremes(material)])])


def _extremes(material: WordMaterial) -> TableData:
    """The longest and the shortest vectors among frequent words."""
    some = material.rows[: max(2 * _EXTREMES, len(material.rows) // 4)]
    order = some[np.argsort(-material.vectors.norms[some], kind="stable")]
    pairs = zip(order[:_EXTREMES], order[::-1][:_EXTREMES], strict=True)
    rows = [
        [cell for row in pair for cell in (material.name(int(row)), _length(material, int(row)))]
        for pair in pairs
    ]
    return TableData(
        ["longest", "length", "shortest", "length "],
        rows,
        words=["longest", "shortest"],
        title="The longest and shortest vectors",
        caption=f"Among the {len(some):,} most frequent words.",
    )


def _length(material: WordMaterial, row: int) -> str:
    return figure(float(material.vectors.norms[row]), 2)


def spectrum_section(material: WordMaterial, cloud: Cloud) -> Section:
    """Singular values of the vectors, and how many directions they fill."""
    facts = [
        (f"directions that {name} vectors fill", figure(effective_dimensions(values), 1))
        for name, values in cloud.spectra.items()
    ]
    first = cloud.spectra["center"]
    share = percent(float(first[0] ** 2 / (first**2).sum()), 0)
    facts += [
        ("of columns", f"{material.vectors.dim:,}"),
        ("share of the largest direction", share),
        ("mean cosine of two words", figure(cloud.common, 2)),
    ]
    signs = material.vectors.signs
    if signs is not None:
        facts.append(("signs +1 and −1", f"{int((signs > 0).sum())} and {int((signs < 0).sum())}"))
    caption = (
        "Singular values of the vectors of frequent words, over the root of their mean square; at "
        "the dashed line all directions would be alike. The directions filled are as many equal "
        "ones as would be spread as evenly: exp of the entropy of the squares."
    )
    drawn = spectrum_curves(cloud.spectra)
    return Section("Spectrum", parts=[Facts(facts), Picture("Singular values", drawn, caption)])


def cloud_cautions(material: WordMaterial, cloud: Cloud) -> list[str]:
    """Rare words, and a direction that all words share."""
    said = []
    if material.counts is not None:
        rare = float((material.counts < _RARELY).mean())
        if rare >= _MANY_RARE:
            said.append(
                f"{percent(rare, 0)} of the words were read fewer than {_RARELY} times: their "
                "neighbors say little."
            )
    if cloud.common >= _COMMON:
        said.append(
            f"Any two words have a cosine of {figure(cloud.common, 2)} on the average: compare "
            "cosines with that, not with 0."
        )
    return said
