"""EFA of items and of values, in both directions, under every encoding."""

import numpy as np
import pytest

from estimator_cases import class_of, make, ratings
from exfam.encodings import ENCODINGS

FRAME = ratings(n_users=8)
DAYS_TO_2024 = 19_783.0


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
def test_efa_takes_every_encoding(encoding, direction, tmp_path):
    options = {"encoding": encoding, "direction": direction, "order": "day", "max_epochs": 1}
    model = make("efa", **options).fit(FRAME)
    told = model.log_prob(FRAME)
    assert np.isfinite(told).all()
    model.save(tmp_path / "model")
    assert class_of("efa").load(tmp_path / "model").score(FRAME) == model.score(FRAME)


def test_a_later_date_changes_nothing():
    # Ten seconds apart, which single precision does not tell apart in 2024.
    seconds = 10.0 * np.arange(len(FRAME["day"]))
    options = {"encoding": "distance", "order": "time", "position": "time", "max_epochs": 1}
    frames = [dict(FRAME) | {"time": day + seconds / 86_400} for day in (0.0, DAYS_TO_2024)]
    early, late = (make("efa", **options).fit(frame).score(frame) for frame in frames)
    assert early == pytest.approx(late, abs=1e-6)
