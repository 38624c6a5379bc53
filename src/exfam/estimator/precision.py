"""The parameter that says how precisely products are computed in training."""

from exfam.estimator.base import Declared, parameter
from exfam.estimator.rules import Choice
from exfam.training.precision import PRECISIONS


class RoundedProducts(Declared, section="Training"):
    """Products of networks and with item vectors, of rounded numbers or not."""

    precision: str = parameter(
        Choice(tuple(PRECISIONS)),
        '"float32", or "bfloat16" for products of networks and with item vectors in training, '
        "whose factors are then rounded to 8 bits; sums and scores are not. Faster on GPUs and on "
        "processors that multiply such numbers, slower on others, where the fit says so",
        default="float32",
    )
