"""Every estimator that trains by torch, on a GPU: the same scores there as on the processor."""

import numpy as np
import pytest
import torch

from every_estimator import case_of
from exfam import load
from exfam.estimator.registry import REGISTRY, class_of

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

pytestmark = [
    # Layers of an LSTM share one flat weight of cuDNN's, of which each is copied at every call.
    pytest.mark.filterwarnings("ignore:RNN module weights are not part of"),
    pytest.mark.filterwarnings("ignore:.*are unknown to the model"),
]
TRAINED = [kind for kind in REGISTRY if "device" in class_of(kind)().get_params()]


@pytest.mark.parametrize("kind", TRAINED)
def test_a_fit_on_a_gpu_scores_there_as_on_the_processor(kind, tmp_path):
    case = case_of(kind)
    model = case.fit(device="cuda")
    model.save(tmp_path / "model")
    elsewhere = load(tmp_path / "model")
    for member in getattr(elsewhere, "members_", []):
        member.to("cpu")
    scores = [own.score(*case.given) for own in (model, elsewhere)]
    assert np.isfinite(scores).all()
    assert scores[0] == pytest.approx(scores[1], rel=1e-4, abs=1e-4)
