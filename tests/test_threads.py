"""The number of threads is put back, whatever happens."""

import pytest
import torch

from exfam.training.optimizer import processor_threads


def test_threads_are_put_back_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="stop"), processor_threads(before + 1):
        assert torch.get_num_threads() == before + 1
        raise RuntimeError("stop")
    assert torch.get_num_threads() == before


def test_at_least_one_thread():
    with pytest.raises(ValueError, match="`n` must be a number > 0, got 0"), processor_threads(0):
        pass
