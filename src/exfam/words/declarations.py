"""Parameters that models of words share. Without torch, which they train without."""

from exfam.estimator.base import Declared, parameter
from exfam.estimator.rules import SEED, Choice, Flag, OrNone, OrWord, Positive, Share, Whole
from exfam.reading.text.options import CLEANINGS, SENTENCES
from exfam.words.matrices import TIES


class WordModel(Declared, section="Model"):
    """Vectors and the noise that they are trained against."""

    dim: int = parameter(Whole(), "length of a vector", default=200)
    window: int = parameter(
        Whole(),
        "the largest distance of two words; that of a window is drawn from 1 to this",
        default=5,
    )
    negatives: int = parameter(
        Whole(),
        "words drawn as noise, shared by the words of a window, or of three windows where "
        "there are 16 or more",
        default=5,
    )
    tie: str | None = parameter(
        Choice(TIES),
        'None, "reflection" (c = q * w, the first signs +1), "random" (signs are drawn) or '
        '"linear" (c = Q w with a trained matrix Q; several times slower)',
        default=None,
    )
    positive_share: float = parameter(
        Share(), "of the signs, those that are +1; 0.35 to 0.65 are alike", default=0.5
    )
    subsample: float = parameter(
        Positive(zero=True),
        "frequency above which words are left out at random; 0 for none",
        default=0.001,
    )
    noise_exponent: float = parameter(
        Positive(zero=True), "noise is drawn as counts to this power", default=0.75
    )


class TextReading(Declared, section="Text"):
    """How text is read."""

    min_count: int = parameter(Whole(), "how often a word must be read to get a vector", default=5)
    max_words: int | None = parameter(
        OrNone(Whole()), "the most words that get one, the most frequent", default=None
    )
    sentences: str = parameter(
        Choice(SENTENCES), '"lines", or "none" where they end only with files', default="lines"
    )
    lower: bool = parameter(Flag(), "whether text is read in lower case", default=False)
    cleaning: str | None = parameter(
        Choice((None, *CLEANINGS)), '"wikifil" for a-z alone, digits spelled out', default=None
    )


class PassTraining(Declared, section="Training"):
    """Passes over a text."""

    learning_rate: float = parameter(
        Positive(), "of the start; falls linearly, nearly to 0", default=0.025
    )
    epochs: int = parameter(Whole(), "passes over the text", default=5)
    threads: int | str = parameter(
        OrWord("auto", Whole()),
        '"auto" for all processors, or a number; several write without locks',
        default="auto",
    )
    deterministic: bool = parameter(
        Flag(),
        "one thread, so that the same seed gives the same bits on the same machine; it costs "
        "the speed of the others",
        default=False,
    )
    seed: int = parameter(SEED, "of initial vectors and all draws", default=0)
    progress: bool = parameter(Flag(), "whether to draw a line on terminals", default=True)
