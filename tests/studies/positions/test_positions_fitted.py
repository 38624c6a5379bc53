"""A smoke run of encodings chosen by what models learned: laws hold, figures mean nothing."""

import pytest
import torch

from exfam.encodings import ALiBi, Attenuated, NoEncoding
from exfam.positions import encoding_weights
from exfam_studies.common.harness import Options
from exfam_studies.positions import fitted as positions_fitted
from exfam_studies.positions.fitted import FAST_CANDIDATES, TASKS


@pytest.fixture(scope="module")
def rows(data_folder):
    return positions_fitted.run(Options(fast=True))


def of(rows, **wanted):
    """By task and encoding: the rows that have all that is wanted."""
    matches = {}
    for row in rows:
        result = {"metric": row.metric, "model": row.model, **row.settings}
        if all(result.get(name) == value for name, value in wanted.items()):
            matches[row.task, row.settings["encoding"]] = row
    return matches


def test_every_encoding_of_every_task_has_its_nats_on_both_parts(rows):
    nats = of(rows, metric="nats", model="model")
    defaults = dict.fromkeys(TASKS, "relative") | {"table-autompg": "learned"}
    assert set(nats) == {
        (task, encoding) for task in TASKS for encoding in (defaults[task], *FAST_CANDIDATES)
    }
    assert all(row.validation is not None and row.n_seeds == 1 for row in nats.values())
    assert len({row.value for row in nats.values()}) == len(nats)
    for (task, encoding), row in of(rows, metric="nats-difference-to-default").items():
        default = nats[task, defaults[task]]
        assert row.value == pytest.approx(nats[task, encoding].value - default.value)


def test_the_chosen_has_the_least_validation_nats(rows):
    nats = of(rows, metric="nats", model="model")
    chosen = of(rows, metric="nats", model="chosen-by-validation")
    for task in TASKS:
        tried = {encoding: row.validation for (name, encoding), row in nats.items() if name == task}
        ((_, encoding),) = [key for key in chosen if key[0] == task]
        assert tried[encoding] == min(tried.values())
        assert chosen[task, encoding].n_configurations == len(tried) == 3
    assert len(of(rows, metric="nats", model="chosen-by-attention")) == len(TASKS)


def test_scores_are_of_attention_and_of_encodings_and_causal_ones_have_no_symmetry(rows):
    locality = of(rows, metric="position-locality", of="attention")
    assert len(locality) == 3 * len(TASKS)
    for (task, _), row in locality.items():
        assert 0 < row.value <= (1.0 if task == "table-autompg" else 0.5)
    for metric in ("position-symmetry", "position-symmetry-raw"):
        tasks = {task for task, _ in of(rows, metric=metric, of="encoding")}
        assert tasks == {task for task in TASKS if not task.endswith("causal")}
    own = of(rows, metric="position-locality", of="encoding")
    for task in TASKS:
        assert own[task, "attenuated-bias"].value > own[task, "none"].value


@pytest.mark.parametrize("causal", [False, True])
def test_the_nearest_encoding_is_that_of_the_like_locality(causal):
    direction = "causal" if causal else "bidirectional"
    candidates = [NoEncoding(), ALiBi(8), Attenuated(w=2.0)]
    matrices = [encoding_weights(entry, 12, direction=direction)[0] for entry in candidates]
    for number, matrix in enumerate(matrices):
        learned = 0.95 * matrix + 0.05 * torch.eye(12)
        apart = [positions_fitted._apart(entry, learned, causal=causal) for entry in matrices]
        assert min(range(3), key=apart.__getitem__) == number
        assert positions_fitted._apart(matrix, matrix, causal=causal) == 0
