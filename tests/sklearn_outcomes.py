"""scikit-learn's checks of estimators of frames and texts, without the checks of types of tests."""

import json
import warnings

from sklearn.exceptions import SkipTestWarning
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

from exfam.estimator.registry import REGISTRY as KINDS
from exfam.estimator.registry import class_of, kinds_of

OTHERS = [kind for kind in KINDS if kind not in kinds_of("tables")]
# `check_estimator` leaves these out with all that fit arrays of numbers, though they apply.
WITHOUT_ARRAYS = (
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
)


def outcomes(kind):
    """Check -> "passed", or what it says."""
    estimator = class_of(kind)()
    said = {one["check_name"]: one["status"] for one in check_estimator(estimator, on_fail=None)}
    for name in WITHOUT_ARRAYS:
        try:
            getattr(estimator_checks, name)(type(estimator).__name__, estimator)
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"
        else:
            said[name] = "passed"
    return said


if __name__ == "__main__":
    warnings.simplefilter("ignore", SkipTestWarning)
    print(json.dumps({kind: outcomes(kind) for kind in OTHERS}))
