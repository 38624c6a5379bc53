"""EFA of items and of values, in both directions, under every encoding."""

import numpy as np
import pytest

from estimator_cases import class_of, make, ratings
from exfam.encodings import ENCODINGS

FRAME = ratings(n_users=8)


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
def test_efa_takes_every_encoding(encoding, direction, tmp_path):
    options = {"encoding": encoding, "direction": direction, "order": "day", "max_epochs": 1}
    model = make("efa", **options).fit(FRAME)
    told = model.log_prob(FRAME)
    assert np.isfinite(told).all()
    model.save(tmp_path / "model")
    assert class_of("efa").load(tmp_path / "model").score(FRAME) == model.score(FRAME)
