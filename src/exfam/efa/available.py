"""Attributes and methods that only some estimators have."""

from typing import NoReturn

from exfam.checks import ExfamError

__all__ = ["OnlyIn", "UnavailableError"]


class UnavailableError(ExfamError, AttributeError):
    """An estimator does not have this; `hasattr` tells so, as scikit-learn expects."""


class OnlyIn:
    """Stands for a name that an estimator lacks, and says which estimators have it.

    >>> class Mean:
    ...     explain = OnlyIn("EFA")
    >>> hasattr(Mean(), "explain")
    False
    """

    def __init__(self, *estimators: str) -> None:
        self.estimators = estimators

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise UnavailableError(
            f"`{self.name}` must be asked of {' or '.join(self.estimators)}, "
            f"got {owner.__name__}, which has none."
        )
