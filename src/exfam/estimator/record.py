"""What a fit leaves beside the model: how much data, how long, which frame, how files look."""

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from exfam.columns.results import frame_kind_of

_Fit = TypeVar("_Fit", bound=Callable[..., Any])
_NAMES = ("data_counts_", "fit_seconds_", "frame_kind_")
# What older versions did not keep.
_LATER = ("file_settings_",)


@contextmanager
def finding(estimator: Any) -> Iterator[None]:
    """Within it, what is found of files by looking is kept in the estimator's `file_settings_`.

    It decides where files that are read later could be read in several ways.
    """
    if hasattr(estimator, "_finding"):
        yield
        return
    estimator._finding = {}
    try:
        yield
        estimator.file_settings_ = estimator._finding
    finally:
        del estimator._finding


def recorded(fit: _Fit) -> _Fit:
    """A `fit` that also keeps its seconds, the kind of its frame, and how its files are written."""

    @functools.wraps(fit)
    def record(estimator: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        start = time.monotonic()
        with finding(estimator):
            fitted = fit(estimator, X, *args, **kwargs)
        estimator.fit_seconds_ = time.monotonic() - start
        estimator.frame_kind_ = frame_kind_of(X)
        return fitted

    return record  # type: ignore[return-value]


def record_of(estimator: Any) -> dict[str, Any]:
    """What a fit left, as plain JSON."""
    names = (*_NAMES, *_LATER)
    return {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}


def restore_record(estimator: Any, record: Mapping[str, Any]) -> None:
    """Give an estimator what `record_of` returned, if it is whole; older folders have none."""
    if {name: type(record.get(name)) for name in _NAMES} == dict(
        zip(_NAMES, (dict, float, str), strict=True)
    ):
        names = [*_NAMES, *(name for name in _LATER if isinstance(record.get(name), dict))]
        for name in names:
            setattr(estimator, name, record[name])
