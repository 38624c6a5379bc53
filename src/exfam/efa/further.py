"""Estimators that take further groups into what they counted, after a fit."""

from abc import ABC, abstractmethod
from typing import Any

from exfam.checks import UnknownItemError
from exfam.efa.inputs import data_counts
from exfam.efa.requests import requests_of
from exfam.groups import Groups


class TakesFurtherGroups(ABC):
    """What `partial_fit` of an estimator of groups does; beside its base class."""

    @abstractmethod
    def _check_takes(self) -> None:
        """Raise ExfamError for a fitted model that cannot take further groups."""

    @abstractmethod
    def _take(self, groups: Groups) -> None:
        """Change what was fitted by further groups, coded as the fitted ones are."""

    def _take_further(self, X: Any) -> None:
        """Take groups in that hold no new items, and forget what requests have kept."""
        self._check_takes()
        estimator: Any = self
        try:
            groups: Groups = estimator._inputs(X, unknown="error").groups
        except UnknownItemError as error:
            found = str(error).partition(" Choose ")[0]
            advice = "Fit anew, to all groups, for new items"
            if hasattr(self, "with_items"):
                advice += ", or add them by with_items first"
            raise UnknownItemError(f"{found} {advice}.") from error
        self._take(groups)
        requests_of(self).drop()
        more = data_counts([groups])
        for name in ("groups", "elements") if hasattr(self, "data_counts_") else ():
            estimator.data_counts_[name] += more[name]
        if getattr(self, "seen_", None) is not None:
            estimator.seen_ = estimator.seen_.with_groups(groups)
