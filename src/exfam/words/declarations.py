"""Parameters that estimators of words have. Without torch, which they train without."""

from exfam.estimator.rules import Choice, Flag, OrNone, OrWord, Positive, Rules, Share, Whole
from exfam.kernels.cooccurrence import WINDOW_WEIGHTS
from exfam.reading.text.cleaning import CLEANINGS
from exfam.reading.text.options import SENTENCES
from exfam.words.matrices import TIES

__all__ = ["CBOW", "PMI", "SKIP_GRAM"]

_SEED = Whole(least=0, most=2**63 - 1)

SKIP_GRAM: Rules = {
    "dim": Whole(),
    "window": Whole(),
    "negatives": Whole(),
    "tie": Choice(TIES),
    "positive_share": Share(),
    "subsample": Positive(zero=True),
    "noise_exponent": Positive(zero=True),
    "min_count": Whole(),
    "max_words": OrNone(Whole()),
    "sentences": Choice(SENTENCES),
    "lower": Flag(),
    "cleaning": Choice((None, *CLEANINGS)),
    "learning_rate": Positive(),
    "epochs": Whole(),
    "threads": OrWord("auto", Whole()),
    "deterministic": Flag(),
    "seed": _SEED,
    "progress": Flag(),
}

CBOW: Rules = {
    **SKIP_GRAM,
    "likelihood": Choice(("negative_sampling", "softmax")),
    "window": OrNone(Whole()),
    "learning_rate": OrNone(Positive()),
    "batch_size": Whole(),
}

PMI: Rules = {
    "dim": Whole(),
    "window": Whole(),
    "weights": Choice(tuple(WINDOW_WEIGHTS)),
    "min_count": Whole(),
    "method": Choice(("eigen", "svd")),
    "positive": Flag(),
    "shift": Positive(zero=True),
    "exponent": Positive(),
    "max_bytes": Whole(most=2**63 - 1),
    "seed": _SEED,
}
