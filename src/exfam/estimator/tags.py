"""What estimators tell scikit-learn of the data that they take."""

from sklearn.base import BaseEstimator
from sklearn.utils import Tags

__all__ = ["NoArrays"]


class NoArrays(BaseEstimator):
    """An estimator of frames, files or texts: scikit-learn's checks of arrays of numbers skip it.

    >>> NoArrays().__sklearn_tags__().input_tags.two_d_array
    False
    """

    def __sklearn_tags__(self) -> Tags:
        """Columns are named by parameters, or lines are texts; cells may be missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags
