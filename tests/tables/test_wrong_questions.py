"""What no table can answer is refused with an error of ours, whatever it is."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from exfam.checks import DataError, ExfamError
from exfam.tables.data import Column, label_array
from tables.table_estimator_cases import FRAME, JOINT, fitted

TESTS = Path(__file__).parent.parent
NAMES = [["city", 5], ["nowhere"], FRAME["height"], np.zeros(3)]
WRONG = [5, None, b"x", [5], np.nan, object(), *NAMES]
PART = FRAME[:4]
QUESTIONS = {
    "conditional": lambda model, what: model.conditional([what]),
    "given": lambda model, what: model.conditional(["city"], given={"height": [[what]]}),
    "order": lambda model, what: model.log_prob(PART, order=[what]),
    "labels": lambda model, what: model.conditional(["city"]).labels(what),
    "predict_dist": lambda model, what: model.conditional(["city"]).predict_dist(what),
    "draws": lambda model, what: model.conditional(["city"]).sample(no_number(what)),
    "draws' seed": lambda model, what: model.conditional(["city"]).sample(seed=no_number(what)),
    "rows": lambda model, what: model.log_prob(what),
    "rule": lambda model, what: model.impute(PART, rule=what),
    "level": lambda model, what: model.impute(PART, level=what),
    "targets": lambda model, what: model.experts(PART, [what]),
    "member": lambda model, what: model.experts(PART, member=what),
    "member of positions": lambda model, what: model.position_attention(PART, member=what),
    "sample": lambda model, what: model.sample(no_number(what)),
    "train": lambda model, what: model.shift_report(what, FRAME),
    "target": lambda model, what: model.shift_report(FRAME, FRAME, target=no_number(what)),
    "level of shifts": lambda model, what: model.shift_report(FRAME, FRAME, level=what),
    "faithfulness": lambda model, what: model.faithfulness(PART, target=no_number(what)),
    "its seed": lambda model, what: model.faithfulness(PART, target="city", seed=no_number(what)),
}


def no_number(what):
    """What is no name, no number of draws and no seed either."""
    return "a seed" if what is None or isinstance(what, int) else what


def answers():
    """The questions that end in anything but an error of ours."""
    model = fitted(JOINT)
    for name, question in QUESTIONS.items():
        for what in WRONG:
            try:
                question(model, what)
                yield f"{name}({what!r}) was answered"
            except ExfamError:
                continue
            except Exception as error:
                yield f"{name}({what!r}): {type(error).__name__}: {error}"


def test_wrong_questions():
    """In a process of its own, where annotated types are not checked before the code's checks."""
    result = subprocess.run(
        [sys.executable, "-m", "tables.test_wrong_questions"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, ""), result.stderr


@pytest.mark.parametrize("order", [5, np.array(5), [["height"]]])
def test_questions_name_columns_as_they_are(order):
    with pytest.raises(DataError, match="`order` must be a list of names of columns, got"):
        fitted(JOINT).log_prob(FRAME[:2], order=order)


def test_a_column_is_made_of_labels_or_of_knots():
    config = Column("size", "ordinal", labels=label_array(["S", "M"])).to_config()
    for change, message in (
        ({"labels": None}, "'size' must have labels or knots"),
        ({"labels": [["S"], ["M"]]}, "'size' must be one list, got a nested one"),
        ({"knots": [2.0, 1.0]}, "knots of the column 'size' must be finite and increasing"),
    ):
        with pytest.raises(ValueError, match=message):
            Column.from_config(config | change)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("\n".join(answers()), end="")
