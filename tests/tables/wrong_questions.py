"""What no table can answer, without the checks of types that tests run with."""

import warnings

import numpy as np

from exfam.checks import ExfamError
from tables.table_estimator_cases import FRAME, JOINT, fitted

WRONG = [
    5,
    None,
    b"x",
    [5],
    ["city", 5],
    ["nowhere"],
    np.nan,
    object(),
    FRAME["height"],
    np.zeros(3),
]
PART = FRAME[:4]
QUESTIONS = {
    "conditional": lambda model, what: model.conditional([what]),
    "given": lambda model, what: model.conditional(["city"], given={"height": [[what]]}),
    "order": lambda model, what: model.log_prob(PART, order=[what]),
    "labels": lambda model, what: model.conditional(["city"]).labels(what),
    "predict_dist": lambda model, what: model.conditional(["city"]).predict_dist(what),
    "draws": lambda model, what: (
        model.conditional(["city"]).sample("a" if what == 5 else what)
        if np.ndim(what) == 0
        else model.conditional(["city"]).sample(what)
    ),
    "draws' seed": lambda model, what: model.conditional(["city"]).sample(seed=_no_seed(what)),
    "rows": lambda model, what: model.log_prob(what),
    "rule": lambda model, what: model.impute(PART, rule=what),
    "level": lambda model, what: model.impute(PART, level=what),
    "targets": lambda model, what: model.experts(PART, [what]),
    "member": lambda model, what: model.experts(PART, member=what),
    "member of positions": lambda model, what: model.position_attention(PART, member=what),
    "sample": lambda model, what: model.sample(_no_seed(what)),
    "train": lambda model, what: model.shift_report(what, FRAME),
    "target": lambda model, what: model.shift_report(FRAME, FRAME, target=_no_seed(what)),
    "level of shifts": lambda model, what: model.shift_report(FRAME, FRAME, level=what),
    "faithfulness": lambda model, what: model.faithfulness(PART, target=_no_seed(what)),
    "its seed": lambda model, what: model.faithfulness(PART, target="city", seed=_no_seed(what)),
}


def _no_seed(what):
    """What is no name, no number of draws and no seed either."""
    return "a seed" if what is None or isinstance(what, int) else what


def answers():
    """The questions that end in anything but an error of ours."""
    model = fitted(JOINT)
    for name, question in QUESTIONS.items():
        for what in WRONG:
            try:
                question(model, what)
            except ExfamError:
                continue
            except Exception as error:
                yield f"{name}({what!r}): {type(error).__name__}: {error}"
            else:
                yield f"{name}({what!r}) was answered"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("\n".join(answers()), end="")
