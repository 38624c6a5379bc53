"""Passes over a text under the run protocol: pieces, rates, resuming, stopping, progress."""

import signal

import numpy as np
import pytest

from exfam.checks import CheckpointError, DataError, ExfamError
from exfam.training.checkpoints import Checkpoint
from exfam.training.epochs import EpochSettings, fit_text

TOKENS = np.arange(10_000, dtype=np.int32) % 7


class Killed(Exception):
    """Stands for the power going off."""


class Recorder:
    """Adds what it was called with to weights; may fail or be interrupted at a call."""

    def __init__(self, *, fail_at=None, press_at=None):
        self.weights, self.calls = np.zeros(3), []
        self.fail_at, self.press_at = fail_at, press_at

    def __call__(self, tokens, *, rate, seed):
        if len(self.calls) == self.fail_at:
            raise Killed("in the middle")
        if len(self.calls) == self.press_at:
            signal.raise_signal(signal.SIGINT)
        self.calls.append((tokens.tolist(), rate, seed))
        # What comes later counts for more: another order would give other numbers.
        self.weights[:] = 0.9 * self.weights + rate * np.array([tokens.sum(), seed % 97, 1.0])
        return float(len(tokens)), float(len(tokens))


def settings(**changed):
    return EpochSettings(**{"learning_rate": 0.5, "epochs": 3, "threads": 1, "seed": 0, **changed})


def fit(recorder, *, checkpoint=None, tokens=TOKENS, **changed):
    return fit_text(
        recorder,
        tokens=tokens,
        arrays={"weights": recorder.weights},
        settings=settings(**changed),
        checkpoint=checkpoint,
    )


@pytest.mark.parametrize(("share", "last"), [(4e-3, 0.004), (1.0, 1.0)])
def test_every_token_is_seen_once_an_epoch_in_order_while_the_rate_falls_linearly(share, last):
    recorder, tokens = Recorder(), TOKENS.copy()
    tokens.flags.writeable = False
    history = fit(recorder, tokens=tokens, last_share=share)
    pieces, rates, seeds = zip(*recorder.calls, strict=True)
    assert sum(pieces, []) == TOKENS.tolist() * 3
    assert len(history) == 3 and history.stopped == "max_epochs"
    assert history.rows[0].train_nats == 1.0
    assert rates[0] == 0.5
    np.testing.assert_allclose(np.diff(rates), rates[1] - rates[0], atol=1e-12)
    assert rates[-1] == pytest.approx(0.5 * last, abs=0.5 / len(rates))
    assert history.rows[-1].learning_rate == rates[-1]
    # Draws depend on the seed and on no number of threads.
    assert len(set(seeds)) == len(seeds)
    threads, other = Recorder(), Recorder()
    fit(threads, threads=2, last_share=share)
    fit(other, seed=2, last_share=share)
    assert sorted(recorder.calls) == sorted(threads.calls)
    assert (recorder.weights != other.weights).any()


@pytest.mark.parametrize(("fail_at", "seconds"), [(3, 0.0), (60, 30.0), (140, 0.0)])
def test_a_killed_fit_goes_on_to_the_same_bits(tmp_path, fail_at, seconds):
    whole, again, finished = Recorder(), Recorder(), Recorder()
    history = fit(whole)
    checkpoint = Checkpoint(tmp_path / "fit", seconds=seconds)
    with pytest.raises(Killed, match="in the middle"):
        fit(Recorder(fail_at=fail_at), checkpoint=checkpoint)
    resumed = fit(again, checkpoint=checkpoint)
    np.testing.assert_array_equal(again.weights, whole.weights)
    assert [row.train_nats for row in resumed.rows] == [row.train_nats for row in history.rows]
    assert len(again.calls) < len(whole.calls) or fail_at == 3
    fit(finished, checkpoint=str(tmp_path / "fit"))
    assert not finished.calls and (finished.weights == whole.weights).all()


@pytest.mark.parametrize(
    ("changed", "named"), [({"seed": 1}, "seed is 0"), ({"tokens": TOKENS[::-1].copy()}, "text is")]
)
def test_a_checkpoint_of_another_fit_is_refused(tmp_path, changed, named):
    fit(Recorder(), checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match=f"must belong to this fit.*{named}"):
        fit(Recorder(), checkpoint=tmp_path, **changed)


def test_ctrl_c_keeps_what_was_learned_and_a_checkpoint(tmp_path):
    whole, stopped, again = Recorder(), Recorder(press_at=70), Recorder()
    fit(whole)
    history = fit(stopped, checkpoint=tmp_path)
    assert history.interrupted and len(history) == 1 and stopped.weights.any()
    assert not fit(again, checkpoint=tmp_path).interrupted
    assert len(again.calls) == len(whole.calls) - len(stopped.calls)
    np.testing.assert_array_equal(again.weights, whole.weights)


@pytest.mark.parametrize(
    ("sums", "error", "message"),
    [
        ((np.nan, 1.0), ExfamError, "Training nats must be finite, got nan at epoch 1"),
        ((0.0, 0.0), DataError, "must have words beside each other, got none in epoch 1"),
    ],
)
def test_nothing_to_learn_from_ends_the_fit(sums, error, message):
    with pytest.raises(error, match=message):
        fit_text(lambda *_, **__: sums, tokens=TOKENS, arrays={}, settings=settings())


@pytest.mark.parametrize("mode", ["r", "c"])
def test_a_text_in_a_file_is_as_one_in_memory(tmp_path, mode):
    """Its pages are given back; what was written to a private copy of them is not."""
    np.save(tmp_path / "tokens.npy", TOKENS)
    mapped, inside = np.load(tmp_path / "tokens.npy", mmap_mode=mode), TOKENS.copy()
    if mode == "c":
        mapped[:9] = inside[:9] = 3
    one, other = Recorder(), Recorder()
    fit(one, tokens=mapped)
    fit(other, tokens=inside)
    assert one.calls == other.calls
    np.testing.assert_array_equal(mapped, inside)
