"""Theorem 2 of "Exponential Family Attention": what it says of a model, and what is measured.

With probability 1 - xi over F groups drawn alike, the minimizer of the training loss over all
models of the class with norm at most B has

    L(fitted) <= inf L + O(rate),
    rate = B_y^2 sqrt((43 L (L (3 M D^2 + 2 D D') + K' (K + tau)) iota + log(1 / xi)) / F),
    iota = log(2 + max(B, R, 1 / (2 B_y))),

where the loss of a group of I elements is 1/(2 I) sum_i (y_i - prediction)^2. The rate is a term
and no bound: O() hides a constant. The theorem is about `ClippedFieldNetwork` alone.
Source: section 5.2 and appendix D of the paper.
"""

from exfam_studies.efa.generalization.excess import (
    MeasuredFit,
    check_theorem_2,
    fit_slope,
    group_losses,
    measure_fit,
)
from exfam_studies.efa.generalization.norms import (
    ModelClass,
    model_class,
    parameter_norm,
    rate_term,
    theorem_network,
)

__all__ = [
    "MeasuredFit",
    "ModelClass",
    "check_theorem_2",
    "fit_slope",
    "group_losses",
    "measure_fit",
    "model_class",
    "parameter_norm",
    "rate_term",
    "theorem_network",
]
