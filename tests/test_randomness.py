"""Fits draw from generators of their own: no fit moves another one, or its caller's randomness."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("tokenizers", reason="tokenizers (extra hf) is not installed")

from every_estimator import case_of, tensors_of
from exfam.checks import ExfamError
from exfam.estimator.registry import REGISTRY as KINDS
from exfam.layers import Dropout, drawing_again, lend_generator

# Everything random of a class at once.
TABLES = {"network": "deep", "n_targets": 2, "extra_masking": 0.5, "ensemble": 2}
RANDOM = {
    "efa": {"n_sampled_items": 3, "dropout": 0.5, "ensemble": 2},
    "latent-factor": {"n_sampled_items": 3},
    "masked-table": TABLES,
    "masked-table-classifier": TABLES,
    "masked-table-regressor": TABLES,
}
USES = (
    "predict", "predict_dist", "predict_log_proba", "predict_proba", "predict_variance",
    "log_prob", "transform", "explain", "recommend", "impute", "perplexity", "next_site",
    "order_disagreement",
)  # fmt: skip


@contextmanager
def others_drawing():
    """Another thread seeds the global generators and draws from them all the time."""
    done = threading.Event()
    state = torch.get_rng_state()

    def draw():
        while not done.wait(0.0005):
            torch.default_generator.manual_seed(7)
            torch.rand(3)

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        torch.set_rng_state(state)


def global_states():
    # Python's own `random` is imported nowhere; the checks of shapes draw from it in tests.
    name, keys, *rest = np.random.get_state()
    return torch.get_rng_state().tolist(), (name, keys.tolist(), *rest)


def use(estimator, case):
    """Call what an estimator has; how many calls were not refused."""
    calls = [(name, case.given[:1]) for name in USES] + [("score", case.given)]
    calls += [("sample", case.given[:1]), ("sample", ())]
    done = 0
    for name, given in calls:
        if hasattr(estimator, name):
            with suppress(ExfamError, TypeError):
                getattr(estimator, name)(*given)
                done += 1
    return done


@pytest.mark.filterwarnings("ignore::exfam.checks.ExfamWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_fits_take_and_leave_no_randomness_of_others(kind):
    case, chosen = case_of(kind), RANDOM.get(kind, {})
    before = global_states()
    estimator = case.fit(**chosen)
    assert global_states() == before
    assert use(estimator, case) >= 1
    assert global_states() == before
    alone = tensors_of(estimator)
    with others_drawing(), ThreadPoolExecutor(2) as threads:
        fits = list(threads.map(lambda _: case.fit(**chosen), range(2)))
    for fit in map(tensors_of, fits):
        assert fit.keys() == alone.keys()
        for name, array in alone.items():
            np.testing.assert_array_equal(fit[name], array, err_msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_dropout_is_torchs_from_a_generator_of_its_own(dtype):
    x = torch.arange(1.0, 3001.0, dtype=dtype).reshape(30, 100).requires_grad_()
    part = Dropout(0.3)
    with lend_generator(torch.Generator().manual_seed(5), part):
        own = part(x)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(5)
        witness = nn.functional.dropout(x, 0.3)
    assert torch.equal(own, witness)
    assert torch.equal(*(torch.autograd.grad(part.sum(), x)[0] for part in (own, witness)))
    assert torch.equal(part.eval()(x), x) and torch.equal(Dropout(0.0)(x), x)


def test_a_lent_generator_is_given_back_after_an_error():
    network = nn.Sequential(Dropout(0.5), nn.Sequential(Dropout(0.1)))
    generator = torch.Generator()
    with pytest.raises(RuntimeError, match="stop"), lend_generator(generator, network):
        assert network[0].generator is network[1][0].generator is generator
        raise RuntimeError("stop")
    assert network[0].generator is network[1][0].generator is None


def test_what_is_computed_again_draws_the_same_and_moves_nothing():
    part, x = Dropout(0.5), torch.ones(200)
    with lend_generator(torch.Generator().manual_seed(0), part):
        first, again = drawing_again(part)
        with first:
            drawn = part(x)
        state = part.generator.get_state()
        assert not torch.equal(part(x), drawn)
        part.generator.set_state(state)
        with again:
            assert torch.equal(part(x), drawn)
        assert torch.equal(part.generator.get_state(), state)
