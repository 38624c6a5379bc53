"""Columns of frames are known by their names: their order means nothing, in every estimator."""

import pytest

from every_estimator import case_of
from exfam.estimator.registry import REGISTRY

_FRAMES = ("communities", "events", "fields", "groups", "tables")


@pytest.mark.parametrize("kind", [kind for kind in REGISTRY if REGISTRY[kind].reads in _FRAMES])
def test_columns_in_another_order_are_the_same_data(kind):
    case = case_of(kind)
    model = case.fit()
    frame, *response = case.given
    names = list(frame) if isinstance(frame, dict) else list(frame.columns)
    turned = {name: frame[name] for name in reversed(names)}
    assert list(turned) != names
    if not isinstance(frame, dict):
        turned = frame[list(turned)]
    assert model.score(turned, *response) == pytest.approx(model.score(frame, *response), rel=1e-6)
