"""What scikit-learn asks of an estimator, told without importing it.

Importing scikit-learn takes more memory than the vectors of a small corpus, and longer than their
training. Its `clone`, pipelines and searches go by what an estimator answers, not by its class.
"""

import inspect
from typing import TYPE_CHECKING, Any

from exfam.checks import ExfamError

if TYPE_CHECKING:
    from sklearn.utils import Tags

__all__ = ["Parameters", "check_fitted"]


class Parameters:
    """The arguments of `__init__`, kept under their own names, as parameters.

    >>> class Model(Parameters):
    ...     def __init__(self, *, dim: int = 200, seed: int = 0) -> None:
    ...         self.dim, self.seed = dim, seed
    >>> Model(dim=8).get_params(), Model(dim=8), Model().set_params(seed=1)
    ({'dim': 8, 'seed': 0}, Model(dim=8), Model(seed=1))
    """

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        told = inspect.signature(cls.__init__).parameters.values()
        return {each.name: each.default for each in told if each.name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Names and values; `deep` makes no difference."""
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params: Any) -> "Parameters":
        """Set some, by name; ExfamError, with nothing set, for one that there is not."""
        known = self._defaults()
        for name in params:
            if name not in known:
                raise ExfamError(
                    f"`{name}` must be a parameter of {type(self).__name__}, which has "
                    f"{', '.join(known)}."
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """The parameters that are not as they would be unsaid."""
        told = [
            f"{name}={getattr(self, name)!r}"
            for name, default in self._defaults().items()
            if repr(getattr(self, name)) != repr(default)
        ]
        return f"{type(self).__name__}({', '.join(told)})"

    def __sklearn_tags__(self) -> "Tags":
        """That X is text, and that there is no y."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            input_tags=InputTags(two_d_array=False, string=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` has made any attribute that ends in an underscore."""
        return any(name.endswith("_") and not name.startswith("_") for name in vars(self))


def check_fitted(estimator: Any, name: str) -> None:
    """Raise scikit-learn's NotFittedError unless `fit` has made the attribute `name`.

    >>> check_fitted(Parameters(), "get_params")
    """
    if not hasattr(estimator, name):
        from sklearn.exceptions import NotFittedError

        kind = type(estimator).__name__
        raise NotFittedError(
            f"This {kind} instance is not fitted yet. Call 'fit' with a text before using it."
        )
