"""The base of all estimators: parameters, saving and loading, and what scikit-learn reads.

A class of a slice says what it is fitted to, and implements `fit`. To be saved, it has a `kind`
that the registry lists, and says what its folder needs besides parameters and networks.
"""

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from exfam.estimator.declared import Declared, attribute

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from exfam.estimator.seen import Seen
    from exfam.training.history import History

_Loaded = TypeVar("_Loaded")


class Estimator(Declared):
    """Parameters, a fit, and a folder that holds both.

    `parameters_`: those of the fit. What is fitted is used, and built again, by these: what
    `set_params` changes later is for the next fit.
    `histories_`: what happened in training, one of each member. `seen_`: hashes of what the model
    was fitted on.
    """

    kind: ClassVar[str]
    # The attribute that exists once the estimator is fitted.
    fitted_attribute: ClassVar[str] = "members_"

    members_: list[Any] = attribute()
    parameters_: dict[str, Any] = attribute()
    histories_: "list[History]" = attribute()
    seen_: "Seen" = attribute()

    @property
    def history_(self) -> "History":
        """What happened in training, epoch by epoch, of the first member."""
        self._check_fitted()
        return self.histories_[0]

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted model to a folder: safetensors, JSON and Parquet, no pickle."""
        from exfam.estimator.saving import save_estimator

        self._check_fitted()
        save_estimator(self, path, overwrite=overwrite)

    @classmethod
    def load(cls: type[_Loaded], path: str | PathLike[str]) -> _Loaded:
        """The model saved in a folder.

        Raises ModelFileError if it is damaged, newer, or of another estimator.
        """
        from exfam.estimator.saving import load_estimator

        loaded: _Loaded = load_estimator(path, expected=cls)
        return loaded

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a folder needs besides parameters and members: plain JSON, and tensors or arrays."""
        return {}, {}

    def _restore(
        self,
        config: dict[str, Any],
        tensors: dict[str, Any],
        vocabulary: dict[str, np.ndarray],
    ) -> None:
        """Take back what `_state` gave."""

    def _restored_member(self, config: dict[str, Any]) -> Any:
        """A member of the fitted shape, its numbers to be loaded."""
        raise ValueError(f"{type(self).__name__} has no members")

    def _labels(self) -> Mapping[str, np.ndarray]:
        """The labels of codes, by column, that a folder keeps."""
        labels: Mapping[str, np.ndarray] = self.vocabulary_  # type: ignore[attr-defined]
        return labels

    def _check_parameters(self) -> None:
        """Raise ExfamError for a parameter that no data could make right."""
        self.check_rules()

    def _check_fitted(self) -> None:
        check_fitted(self, self.fitted_attribute)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` or `load` has made a model."""
        return hasattr(self, self.fitted_attribute)

    def __sklearn_tags__(self) -> "Tags":
        """Frames, files or texts, cells of which may be missing, and no y."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            input_tags=InputTags(two_d_array=False, string=True, categorical=True, allow_nan=True),
        )


def check_fitted(estimator: Any, name: str) -> None:
    """Raise scikit-learn's NotFittedError unless `fit` has made the attribute `name`.

    >>> check_fitted(Estimator(), "get_params")
    """
    if not hasattr(estimator, name):
        from sklearn.exceptions import NotFittedError

        kind = type(estimator).__name__
        raise NotFittedError(
            f"This {kind} instance is not fitted yet. Call 'fit' with appropriate arguments "
            "before using this estimator."
        )
