"""exfam's estimators of fields that see amounts, of which others see logarithms.

Their densities are those of the logarithms: exact changes of variables, so that nats compare.
"""

from collections.abc import Callable
from dataclasses import replace

from benchmarks.arena.contenders.fields.ours import default
from benchmarks.arena.contenders.fields.rules import no_amounts
from benchmarks.arena.fields.amounts import LogOfAmounts, amounts_of
from benchmarks.arena.fields.data import FieldData, Maps
from benchmarks.arena.kind import Contender, Fitted


def of_amounts(name: str) -> Callable[[FieldData, int], Fitted]:
    """Fit an estimator by default to the amounts of training and validation maps."""

    def fit(data: FieldData, seed: int) -> Fitted:
        both = amounts_of(data.both, data)
        fitted = default(name)(replace(data, both=both), seed)

        def predict(maps: Maps) -> LogOfAmounts:
            return LogOfAmounts(fitted.predict(amounts_of(maps, data)), data)

        return replace(fitted, predict=predict)

    return fit


CONTENDERS = {
    "field-gaussian-amounts": Contender(
        label="FieldGaussian() of amounts",
        fit=of_amounts("FieldGaussian"),
        ours=True,
        unsuited=no_amounts,
    ),
    "field-efa-amounts": Contender(
        label="FieldEFA() of amounts",
        fit=of_amounts("FieldEFA"),
        ours=True,
        is_random=True,
        unsuited=no_amounts,
    ),
}
