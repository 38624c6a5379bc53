"""scikit-learn's own checks, and the list of those that are expected to fail."""

import re
from pathlib import Path

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from tables.table_estimator_cases import CLASSIFIER, EVERY, JOINT, KINDS, REGRESSOR, SMALL, class_of

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "scikit-learn.md"
WEIGHTS = {
    "check_sample_weight_equivalence_on_dense_data": "rows are learned from in random batches and "
    "held out in folds, so that a row of weight 2 is not the same as two rows"
}
EXPECTED = {CLASSIFIER: WEIGHTS, REGRESSOR: WEIGHTS, JOINT: {}}
# By kind: checks that pass, and those that are expected to fail.
COUNTS = {CLASSIFIER: (60, 1), REGRESSOR: (57, 1), JOINT: (53, 0)}
STEPS = {**SMALL, "max_epochs": 1, "batch_size": 64, "learning_rate": 3e-2}
# Of the default those that look at fitted models; it passes the others as well, at ten times the
# time, but for those that are expected to fail.
DEFAULT = {"fast": True, "progress": False}
OF_DEFAULT = (
    "check_dict_unchanged",
    "check_estimators_overwrite_params",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_n_features_in",
)
# Of these, scikit-learn asks for some accuracy, or for all classes to be predicted.
ACCURATE = ("check_classifiers_classes", "check_classifiers_train", "check_regressors_train")


def expected(estimator):
    return EXPECTED[estimator.kind]


@parametrize_with_checks(
    [class_of(kind)(**STEPS) for kind in KINDS], expected_failed_checks=expected
)
def test_scikit_learn_accepts_it(estimator, check):
    if check.func.__name__ in ACCURATE:
        estimator.set_params(max_epochs=10)
    check(estimator)


@EVERY
@pytest.mark.parametrize("name", OF_DEFAULT)
def test_scikit_learn_accepts_the_default(kind, name):
    for estimator, check in estimator_checks_generator(class_of(kind)(**DEFAULT)):
        if check.func.__name__ == name:
            return check(estimator)
    pytest.fail(f"no check {name}")


@EVERY
def test_no_check_is_left_out_and_the_guide_lists_what_fails(kind):
    checks = list(estimator_checks_generator(class_of(kind)(**STEPS)))
    assert (len(checks) - len(EXPECTED[kind]), len(EXPECTED[kind])) == COUNTS[kind]
    section = GUIDE.read_text(encoding="utf-8").split(f"### {class_of(kind).__name__}\n")[1]
    listed = dict(re.findall(r"^- `(\w+)`: (.*)\.$", section.split("###")[0], re.MULTILINE))
    assert listed == EXPECTED[kind]
    assert listed or "None." in section.split("###")[0]
