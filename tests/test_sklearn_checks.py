"""scikit-learn's own checks of estimators of frames and texts; those of tables have their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from exfam.estimator.registry import kinds_of
from sklearn_outcomes import OTHERS, class_of

TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def outcomes():
    """By kind, check -> "passed", or what it says."""
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    done = subprocess.run(
        [sys.executable, "-m", "sklearn_outcomes"],
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


@pytest.mark.parametrize("kind", OTHERS)
def test_what_cannot_apply_is_declared(kind):
    tags = class_of(kind)().__sklearn_tags__()
    assert not tags.input_tags.two_d_array and tags.input_tags.string
    assert tags.target_tags.required == (kind in kinds_of("sentences"))
    assert (tags.transformer_tags is not None) == hasattr(class_of(kind), "transform")
