"""What scikit-learn reads of an estimator, without the second that importing it takes."""

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn.utils import Tags


class _SetRequest:
    """A method such as `set_fit_request`, taken from scikit-learn's base when it is first used."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, estimator: Any, owner: type) -> Any:
        twin = _twin_of(owner)
        if not hasattr(twin, self._name):
            raise AttributeError(f"{owner.__name__} has no attribute {self._name!r}")
        return inspect.getattr_static(twin, self._name).__get__(estimator, owner)


@cache
def _twin_of(owner: type) -> type:
    """A class of scikit-learn's base with the methods of `owner`, whose arguments can be routed."""
    from sklearn.base import BaseEstimator

    names = [name for name in dir(owner) if not name.startswith("_") and name not in vars(Routed)]
    methods = {name: inspect.getattr_static(owner, name) for name in names}
    functions = {name: method for name, method in methods.items() if inspect.isfunction(method)}
    return type(owner.__name__, (BaseEstimator,), functions)


class Routed:
    """Takes part in scikit-learn's metadata routing, and imports it when this is used."""

    set_fit_request = _SetRequest()
    set_partial_fit_request = _SetRequest()
    set_predict_request = _SetRequest()
    set_predict_proba_request = _SetRequest()
    set_predict_log_proba_request = _SetRequest()
    set_score_request = _SetRequest()
    set_transform_request = _SetRequest()
    set_inverse_transform_request = _SetRequest()

    def get_metadata_routing(self) -> Any:
        """The arguments that scikit-learn's meta-estimators pass on to methods."""
        owner: Any = type(self)
        twin: Any = _twin_of(owner)()
        if "_metadata_request" in vars(self):
            twin._metadata_request = vars(self)["_metadata_request"]
        return twin.get_metadata_routing()

    def _get_metadata_request(self) -> Any:
        return self.get_metadata_routing()


class Transformer:
    """An estimator that has a `transform`, as scikit-learn's `TransformerMixin`."""

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and transform what was fitted."""
        estimator: Any = self
        given = (X,) if y is None else (X, y)
        return estimator.fit(*given, **fit_params).transform(X)

    def __sklearn_tags__(self) -> "Tags":
        from sklearn.utils import TransformerTags

        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.transformer_tags = TransformerTags()
        return tags
