"""Parameters that models of words share. Without torch, which they train without."""

from exfam.estimator.declared import Declared, parameter
from exfam.estimator.rules import SEED, Choice, Flag, OrNone, OrWord, Positive, Share, Whole
from exfam.reading.text.options import CLEANINGS, SENTENCES
from exfam.words.matrices import TIES

__all__ = ["PassTraining", "TextReading", "WordModel"]


class WordModel(Declared, section="Model"):
    """Vectors and the noise that they are trained against."""

    dim: int = parameter(200, Whole(), "length of a vector")
    window: int = parameter(
        5, Whole(), "the largest distance of two words; that of a window is drawn from 1 to this"
    )
    negatives: int = parameter(
        5,
        Whole(),
        "words drawn as noise, shared by the words of a window, or of three windows where "
        "there are 16 or more",
    )
    tie: str | None = parameter(
        None,
        Choice(TIES),
        'None, "reflection" (c = q * w, the first signs +1), "random" (signs are drawn) or '
        '"linear" (c = Q w with a trained matrix Q; several times slower)',
    )
    positive_share: float = parameter(
        0.5, Share(), "of the signs, those that are +1; 0.35 to 0.65 are alike"
    )
    subsample: float = parameter(
        0.001, Positive(zero=True), "frequency above which words are left out at random; 0 for none"
    )
    noise_exponent: float = parameter(
        0.75, Positive(zero=True), "noise is drawn as counts to this power"
    )


class TextReading(Declared, section="Text"):
    """How text is read."""

    min_count: int = parameter(5, Whole(), "how often a word must be read to get a vector")
    max_words: int | None = parameter(
        None, OrNone(Whole()), "the most words that get one, the most frequent"
    )
    sentences: str = parameter(
        "lines", Choice(SENTENCES), '"lines", or "none" where they end only with files'
    )
    lower: bool = parameter(False, Flag(), "whether text is read in lower case")
    cleaning: str | None = parameter(
        None, Choice((None, *CLEANINGS)), '"wikifil" for a-z alone, digits spelled out'
    )


class PassTraining(Declared, section="Training"):
    """Passes over a text."""

    learning_rate: float = parameter(0.025, Positive(), "of the start; falls linearly, nearly to 0")
    epochs: int = parameter(5, Whole(), "passes over the text")
    threads: int | str = parameter(
        "auto",
        OrWord("auto", Whole()),
        '"auto" for all processors, or a number; several write without locks',
    )
    deterministic: bool = parameter(
        False,
        Flag(),
        "one thread, so that the same seed gives the same bits on the same machine; it costs "
        "the speed of the others",
    )
    seed: int = parameter(0, SEED, "of initial vectors and all draws")
    progress: bool = parameter(True, Flag(), "whether to draw a line on terminals")
