"""scikit-learn's own checks of estimators of frames and texts; those of tables have their own."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

from exfam.estimator.registry import REGISTRY, class_of, kinds_of

TESTS = Path(__file__).parent
OTHERS = [kind for kind in REGISTRY if kind not in kinds_of("tables")]
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


def outcomes_of(kind):
    """Check -> "passed", or what it says."""
    estimator = class_of(kind)()
    checks = check_estimator(estimator, on_fail=None)
    outcomes = {check["check_name"]: check["status"] for check in checks}
    for name in WITHOUT_ARRAYS:
        try:
            getattr(estimator_checks, name)(type(estimator).__name__, estimator)
        except Exception as error:
            outcomes[name] = f"{type(error).__name__}: {error}"
        else:
            outcomes[name] = "passed"
    return outcomes


@pytest.fixture(scope="module")
def outcomes():
    """Outcomes by kind, from a process without the checks of types of tests."""
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    done = subprocess.run(
        [sys.executable, "-m", "test_sklearn_checks"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", OTHERS)
def test_what_applies_passes(outcomes, kind):
    failed = {name: outcome for name, outcome in outcomes[kind].items() if outcome != "passed"}
    assert not failed
    assert len(outcomes[kind]) == 10


if __name__ == "__main__":
    warnings.simplefilter("ignore", SkipTestWarning)
    print(json.dumps({kind: outcomes_of(kind) for kind in OTHERS}))
