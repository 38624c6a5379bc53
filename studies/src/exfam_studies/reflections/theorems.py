"""The paper's lemmas and its theorem, as checks of given vectors: rows are words, columns contexts.

Assumed throughout: word vectors are w ~ N(0, 1 / dim) (eq. 1), Q is orthogonal (eq. 2).
"""

import numpy as np
import scipy.stats
from jaxtyping import Float

from exfam_studies.common.statements import ERRORS, Check, unmet
from exfam_studies.reflections.linear_map import partition_report

# Distances of distributions, and relative errors, from which on an assumption counts as failed.
_LARGE = 0.05
# Figure 4 of the paper: nothing changes while the share of +1 is within this of a half.
_FLAT = 0.15

Words = Float[np.ndarray, "words dim"]
Transform = Float[np.ndarray, "dim dim"]
Information = Float[np.ndarray, "words words"]
Probability = Float[np.ndarray, "words"]


def check_lemma_1(words: Words, transform: Transform, *, t: float) -> Check:
    """Lemma 1: w'Qw concentrates at trace(Q) / dim.

    Concludes that w'Qw is more than t sqrt(2 / dim) away for at most 1 / t^2 of all words (eq. 10),
    and that its variance is (dim + trace(Q Q)) / dim^2 (eq. 9). Q = 1 is corollary 1.1.
    """
    n, dim = words.shape
    form = np.einsum("nd,de,ne->n", words, transform, words, optimize=True)
    center, bound = float(np.trace(transform)) / dim, min(1.0, 1 / t**2)
    share = float((np.abs(form - center) > t * np.sqrt(2 / dim)).mean())
    variance, expected = float(form.var()), float(dim + np.trace(transform @ transform)) / dim**2
    error = ERRORS * _variance_error((transform + transform.T) / 2, n)
    is_bounded = share <= bound + ERRORS * np.sqrt(bound * (1 - bound) / n)
    is_near = abs(variance - expected) <= error + 1e-12
    return Check(
        statement="Lemma 1",
        measured={"exceeding share": share, "variance": variance, "mean": float(form.mean())},
        expected={"exceeding share at most": bound, "variance": expected, "mean": center},
        failed_assumptions=_not_gaussian(words) + _not_orthogonal(transform),
        failed_conclusions=unmet(
            (is_bounded, f"eq. 10: a share of at most {bound:.3g}, got {share:.3g}"),
            (is_near, f"eq. 9: variance {expected:.3g}, got {variance:.3g}"),
        ),
    )


def check_lemma_2(words: Words, transform: Transform, probability: Probability) -> Check:
    """Lemma 2: the partition functions Z_j all are about 1 + 1 / (2 dim).

    Assumes frequencies p_i ~ 1 / rank^(1 - a) with a in (0, 1] (eq. 4). Concludes that the mean of
    Z is 1 + 1 / (2 dim) (eq. 18), and that its variance is that of such frequencies at most.
    """
    n, dim = words.shape
    mean, spread, expected, _ = partition_report(words, words @ transform.T, probability)
    falling = np.log(np.sort(np.maximum(probability, np.finfo(float).tiny))[::-1])
    rank = np.log(np.arange(1, n + 1))
    alpha = float(np.clip(1 + np.polyfit(rank, falling, 1)[0], np.finfo(float).tiny, 1.0))
    rest = falling - (alpha - 1) * rank
    misfit = float(np.abs(rest - rest.mean()).max())
    zipf = np.exp((alpha - 1) * rank)
    # Given w_j by eq. 23 with length 1; the variance of |w|^2 is 2 / dim, Z depends on |w|^2.
    given = (np.exp(2 / dim) - np.exp(1 / dim)) * ((zipf / zipf.sum()) ** 2).sum()
    most = float(np.sqrt(given + 1 / (2 * dim**3)))
    # Of word j itself the exponent is not small; it weighs p_j, and 1 / n on average.
    own = abs(np.exp(np.trace(transform) / dim) - expected) / n
    off = ERRORS * most / np.sqrt(n) + 2 * own + 1 / dim**2
    zipfian = f"1 / rank^(1 - a), a in (0, 1], got ones {misfit:.2g} off in logarithms"
    return Check(
        statement="Lemma 2",
        measured={"mean": mean, "spread": spread, "alpha": alpha},
        expected={"mean": expected, "spread at most about": most},
        failed_assumptions=_not_gaussian(words)
        + _not_orthogonal(transform)
        + unmet((misfit <= _LARGE, f"assumption 3: frequencies must fall as {zipfian}")),
        failed_conclusions=unmet(
            (abs(mean - expected) <= off, f"eq. 18: mean {expected:.4f}, got {mean:.4f}"),
            (spread <= 1.5 * most, f"eq. 25: spread of at most {most:.3g}, got {spread:.3g}"),
        ),
    )


def check_lemma_3(words: Words, information: Information) -> Check:
    """Lemma 3: Q, found by least squares from log p(i | j) / p_i, about W Q W', is an involution.

    Assumes that it is symmetric. Concludes that |Q Q - 1| / sqrt(dim) is small (eq. 27).
    """
    inverse = np.linalg.pinv(words)
    transform = inverse @ information @ inverse.T
    apart, asymmetry = _from_identity(transform @ transform), _asymmetry(information)
    return Check(
        statement="Lemma 3",
        measured={"|QQ - 1| / sqrt(dim)": apart, "asymmetry": asymmetry},
        expected={"|QQ - 1| / sqrt(dim)": 0.0, "asymmetry": 0.0},
        failed_assumptions=_not_symmetric(asymmetry) + _not_orthogonal(transform),
        failed_conclusions=unmet((apart <= 3 * _LARGE, f"eq. 27: Q Q = 1, got {apart:.2g} off")),
    )


def check_theorem_1(words: Words, information: Information) -> Check:
    """Theorem 1: context vectors are word vectors reflected in about half the dimensions.

    Assumes a symmetric `information` of about W Q W', and that its trace is about 0 (eq. 36), which
    does not follow from the rest. Concludes that about half of Q's signs are +1, that entries off
    the diagonal are N(0, 1 / dim) (eq. 31), and those on it have mean (2l - dim) / dim, variance
    2 / dim for l signs +1 (eq. 32).
    """
    inverse = np.linalg.pinv(words)
    transform = inverse @ information @ inverse.T
    n, dim = words.shape
    signs = np.linalg.eigvalsh((transform + transform.T) / 2) > 0
    share, trace = float(signs.mean()), float(np.trace(information)) / n
    diagonal, off = np.diag(information), information[~np.eye(n, dtype=bool)]
    gap = float(scipy.stats.kstest(off, scipy.stats.norm(scale=dim**-0.5).cdf).statistic)
    variance, expected = float(diagonal.var()), 2 / dim
    error = ERRORS * _variance_error(np.diag(np.where(signs, 1.0, -1.0)), n)
    is_near = abs(variance - expected) <= error + _LARGE * expected
    traceless = f"equation 36: the trace over n must be about 0, got {trace:.2g}"
    return Check(
        statement="Theorem 1",
        measured={
            "share of +1": share, "trace / n": trace, "diagonal mean": float(diagonal.mean()),
            "diagonal variance": variance, "off-diagonal variance": float(off.var()),
        },
        expected={
            "share of +1": 0.5, "trace / n": 0.0, "diagonal mean": 2 * share - 1,
            "diagonal variance": expected, "off-diagonal variance": 1 / dim,
        },
        failed_assumptions=_not_gaussian(words)
        + _not_symmetric(_asymmetry(information))
        + unmet((abs(trace) <= 2 * _FLAT, traceless)),
        failed_conclusions=unmet(
            (abs(share - 0.5) <= _FLAT, f"theorem 1: half of the signs +1, got {share:.2g}"),
            (gap <= _LARGE, f"eq. 31: entries N(0, 1 / dim), got ones {gap:.2g} off"),
            (is_near, f"eq. 32: variance {expected:.3g} on the diagonal, got {variance:.3g}"),
        ),
    )  # fmt: skip


def _not_gaussian(words: Words) -> tuple[str, ...]:
    n, dim = words.shape
    scaled = words * np.sqrt(dim)
    entries = scipy.stats.kstest(scaled.ravel(), scipy.stats.norm.cdf).statistic
    lengths = scipy.stats.kstest((scaled**2).sum(axis=1), scipy.stats.chi2(dim).cdf).statistic
    square = f"times sqrt(dim) must be N(0, 1), got mean square {(scaled**2).mean():.3g}"
    chi = f"times dim must be chi-squared, got ones {lengths:.2g} off"
    # Below 1.95 / sqrt(n), Kolmogorov's distance is chance in 999 cases of 1000.
    chance = 1.95 / np.sqrt(n)
    return unmet(
        (entries <= _LARGE + chance / np.sqrt(dim), f"assumption 1: coordinates {square}"),
        (lengths <= _LARGE + chance, f"assumption 1: squared lengths {chi}"),
    )


def _from_identity(matrix: Transform) -> float:
    return float(np.linalg.norm(matrix - np.eye(len(matrix))) / np.sqrt(len(matrix)))


def _not_orthogonal(transform: Transform) -> tuple[str, ...]:
    apart = _from_identity(transform @ transform.T)
    words = f"assumption 2: Q must be orthogonal, got |QQ' - 1| / sqrt(dim) = {apart:.2g}"
    return unmet((apart <= 3 * _LARGE, words))


def _not_symmetric(asymmetry: float) -> tuple[str, ...]:
    words = f"p(i, j) = p(j, i): information must be symmetric, got {asymmetry:.2g} of it not"
    return unmet((asymmetry <= 2 * _LARGE, words))


def _asymmetry(information: Information) -> float:
    """|M - M'| / (2 |M|): from 0 to 1."""
    return float(np.linalg.norm(information - information.T) / (2 * np.linalg.norm(information)))


def _variance_error(form: Transform, n: int) -> float:
    """Standard error of the variance of w'Sw over n words of assumption 1, S symmetric."""
    dim, square = len(form), form @ form
    variance = 2 * np.trace(square) / dim**2
    fourth = 48 * np.trace(square @ square) / dim**4
    return float(np.sqrt((2 * variance**2 + fourth) / n))
