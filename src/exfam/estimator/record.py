"""What a fit leaves for those who look at the model: how much data, how long, in which frame."""

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from exfam.columns.results import frame_kind_of

_Fit = TypeVar("_Fit", bound=Callable[..., Any])
_NAMES = ("data_counts_", "fit_seconds_", "frame_kind_")


def recorded(fit: _Fit) -> _Fit:
    """A `fit` that also keeps its seconds on the clock, and the kind of frame that it was given."""

    @functools.wraps(fit)
    def record(estimator: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        start = time.monotonic()
        fitted = fit(estimator, X, *args, **kwargs)
        estimator.fit_seconds_ = time.monotonic() - start
        estimator.frame_kind_ = frame_kind_of(X)
        return fitted

    return record  # type: ignore[return-value]


def record_of(estimator: Any) -> dict[str, Any]:
    """What a fit left, as plain JSON."""
    return {name: getattr(estimator, name) for name in _NAMES if hasattr(estimator, name)}


def restore_record(estimator: Any, record: Mapping[str, Any]) -> None:
    """Give an estimator what `record_of` returned, if it is whole; older folders have none."""
    if {name: type(record.get(name)) for name in _NAMES} == dict(
        zip(_NAMES, (dict, float, str), strict=True)
    ):
        for name in _NAMES:
            setattr(estimator, name, record[name])
