"""Models that earlier versions stored load in this one, and answer as they did.

`tests/stored` has a folder for each version that changed what is stored; `python
tests/test_stored_models.py` writes the answers of the newest anew, of models that are there.
"""

import hashlib
import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import exfam
from estimator_cases import KINDS
from every_estimator import case_of
from exfam.estimator.registry import REGISTRY

STORED = Path(__file__).parent / "stored"
FIRST, NEWEST = STORED / "v1", STORED / "v2"
ANSWERS = NEWEST / "answers.json"


def answers(kind):
    """What a stored model says of the data that it was fitted to."""
    model, (data, *response) = exfam.load(NEWEST / kind), case_of(kind).given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # words of the text without a vector
        match REGISTRY[kind].reads:
            case "groups" | "fields" | "events":
                result = model.log_prob(data)
            case "tables" if response:
                result = model.log_scores(data, response[0])
            case "sentences" if kind != "sentence-regressor":
                result = model.predict_log_proba(data)
            case "sentences":
                result = model.predict(data)
            case _:
                result = model.score(data)
    return np.asarray(result, dtype=np.float64).ravel()[:50]


@pytest.mark.parametrize("kind", KINDS)
def test_models_stored_by_the_first_version(kind):
    stored = json.loads((FIRST / "log_prob.json").read_text())
    nats = exfam.load(FIRST / kind).log_prob(stored["frame"])
    np.testing.assert_allclose(nats, stored["log_prob"][kind], rtol=1e-5)
    assert np.std(nats) > 0


@pytest.mark.parametrize("kind", REGISTRY)
def test_stored_models_answer_as_they_did(kind):
    pytest.importorskip("tokenizers", reason="tokenizers (extra hf) is not installed")
    expected = json.loads(ANSWERS.read_text())[kind]
    np.testing.assert_allclose(answers(kind), expected, rtol=1e-4, atol=1e-5)


def test_models_without_networks_have_no_members(tmp_path):
    shutil.copytree(NEWEST / "skip-gram", tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    document = json.loads(file.read_text())
    del document["checksum"]
    document["config"]["n_members"] = 1
    document["checksum"] = hashlib.sha256(json.dumps(document).encode()).hexdigest()
    file.write_text(json.dumps(document))
    with pytest.raises(exfam.ModelFileError, match="SkipGram has no members"):
        exfam.load(tmp_path / "model")


if __name__ == "__main__":
    kept = json.loads(ANSWERS.read_text())  # those of classes of the studies stay
    kept |= {kind: [float(f"{number:.9g}") for number in answers(kind)] for kind in REGISTRY}
    ANSWERS.write_text(json.dumps(kept, indent=0) + "\n")
