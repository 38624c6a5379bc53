"""Parameters that language models and models of sentences share."""

from exfam.estimator.declared import Declared, parameter
from exfam.estimator.rules import ANY_NUMBER, SEED, Choice, Flag, Fraction, OrNone, Positive, Text
from exfam.language.networks.summed_nats import PRECISIONS
from exfam.language.text_encoders import LONG_SENTENCES

__all__ = ["AdamTraining", "NetworkTraining", "Precision"]


class NetworkTraining(Declared, section="Training"):
    """What every fit of a network needs."""

    dropout: float = parameter(0.1, Fraction(), "of tokens and of layers' outputs")
    batch_size: int = parameter(32, ANY_NUMBER, "stretches per step")
    learning_rate: float = parameter(0.001, Positive(), "the largest of AdamW; falls as a cosine")
    seed: int = parameter(0, SEED, "of initial weights, batches, masks and dropout")
    device: str = parameter("cpu", Text(), '"cpu", "cuda", "cuda:1" or "auto"')
    progress: bool = parameter(True, Flag(), "whether to draw a line on terminals")


class Precision(Declared, section="Training"):
    """Products in training."""

    precision: str = parameter(
        "float32", Choice(tuple(PRECISIONS)), '"float32", or "bfloat16" for products in training'
    )


class AdamTraining(Declared, section="Training"):
    """Training by AdamW."""

    weight_decay: float = parameter(0.01, Positive(zero=True), "of matrices")
    warmup: float = parameter(0.1, Fraction(), "share of the steps in which the rate rises")
    clip: float | None = parameter(
        1.0, OrNone(Positive()), "largest norm of the gradient; None for no limit"
    )
    max_epochs: int = parameter(10, ANY_NUMBER, "passes over the text")
    patience: int = parameter(10, ANY_NUMBER, "epochs without a better validation before it stops")
    long_sentences: str = parameter(
        "error",
        Choice(LONG_SENTENCES),
        '"error", or "cut" to leave out what is beyond the last position that the encoding '
        "knows, where sentences are scored after the fit",
    )
