"""Parameters that language models and models of sentences share."""

from exfam.estimator.base import Declared, parameter
from exfam.estimator.rules import ANY_NUMBER, SEED, Choice, Flag, Fraction, OrNone, Positive, Text
from exfam.language.networks.summed_nats import PRECISIONS
from exfam.language.text_encoders import LONG_SENTENCES


class NetworkTraining(Declared, section="Training"):
    """What every fit of a network needs."""

    dropout: float = parameter(Fraction(), "of tokens and of layers' outputs", default=0.1)
    batch_size: int = parameter(ANY_NUMBER, "stretches per step", default=32)
    learning_rate: float = parameter(
        Positive(), "the largest of AdamW; falls as a cosine", default=0.001
    )
    seed: int = parameter(SEED, "of initial weights, batches, masks and dropout", default=0)
    device: str = parameter(Text(), '"cpu", "cuda", "cuda:1" or "auto"', default="cpu")
    progress: bool = parameter(Flag(), "whether to draw a line on terminals", default=True)


class Precision(Declared, section="Training"):
    """Products in training."""

    precision: str = parameter(
        Choice(tuple(PRECISIONS)),
        '"float32", or "bfloat16" for products in training',
        default="float32",
    )


class AdamTraining(Declared, section="Training"):
    """Training by AdamW."""

    weight_decay: float = parameter(Positive(zero=True), "of matrices", default=0.01)
    warmup: float = parameter(Fraction(), "share of the steps in which the rate rises", default=0.1)
    clip: float | None = parameter(
        OrNone(Positive()), "largest norm of the gradient; None for no limit", default=1.0
    )
    max_epochs: int = parameter(ANY_NUMBER, "passes over the text", default=10)
    patience: int = parameter(
        ANY_NUMBER, "epochs without a better validation before it stops", default=10
    )
    long_sentences: str = parameter(
        Choice(LONG_SENTENCES),
        '"error", or "cut" to leave out what is beyond the last position that the encoding '
        "knows, where sentences are scored after the fit",
        default="error",
    )
