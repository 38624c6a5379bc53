"""Where a step would wait for a GPU, counted on the processor."""

import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode,
)

from exfam.groups import Batch
from exfam.likelihoods import two_part
from exfam.training.ahead import StepsAhead
from exfam.training.torch_engine import TorchEngine

ATEN = torch.ops.aten
# Their results have a size or a value that the host needs before it goes on.
_WAITING = (
    ATEN._local_scalar_dense,
    ATEN.nonzero,
    ATEN.masked_select,
    ATEN._unique2,
    ATEN.unique_dim,
    ATEN.unique_consecutive,
    ATEN.bincount,
    ATEN.equal,
)
_INDEXING = (ATEN.index, ATEN.index_put, ATEN.index_put_, ATEN._index_put_impl_)
_COPIES = ("tolist", "numpy", "cpu")


class DeviceWaits(TorchDispatchMode):
    """Within it, operations that wait for a GPU are counted by the line that calls them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Counter[str] = Counter()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given, packet = kwargs or {}, func.overloadpacket
        by_mask = packet in _INDEXING and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        of_any_size = packet is ATEN.repeat_interleave and given.get("output_size") is None
        if packet in _WAITING or by_mask or of_any_size:
            self.count(packet.__name__)
        return func(*args, **given)

    def count(self, name: str) -> None:
        """One more wait, at the innermost line of the library."""
        own = [frame for frame in traceback.extract_stack() if "/src/exfam/" in frame.filename]
        where = f"{own[-1].filename.rpartition('exfam/')[2]}:{own[-1].lineno}" if own else "?"
        self.lines[f"{name} at {where}"] += 1


@contextmanager
def counted_waits(monkeypatch: Any) -> Iterator[DeviceWaits]:
    """The waits of all within it. Copies to the host are methods that no mode sees."""
    mode = DeviceWaits()

    def counting(name: str) -> Any:
        real = getattr(torch.Tensor, name)

        def copy(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if _get_current_dispatch_mode() is mode:
                mode.count(name)
            return real(tensor, *args, **kwargs)

        return copy

    with monkeypatch.context() as patch, mode:
        for name in _COPIES:
            patch.setattr(torch.Tensor, name, counting(name))
        yield mode


def step_ahead(monkeypatch: Any) -> None:
    """Steps from now on are taken as on a GPU: without waiting for what comes of them."""
    real = TorchEngine.__init__

    def start(engine: Any, *given: Any, **named: Any) -> None:
        real(engine, *given, **named)
        engine._ahead = StepsAhead(engine.optimizer, clip=engine.settings.clip)

    monkeypatch.setattr(TorchEngine, "__init__", start)


def waits_of_a_step(fit: Any, monkeypatch: Any) -> Counter[str]:
    """Those of the second training step of a fit, or of the only one, taken as on a GPU.

    Batches are padded on the host, where what follows from them is worked out: not counted.
    """
    steps: list[Counter[str]] = []
    real_step, real_batch = TorchEngine.step, TorchEngine._batch

    def step(engine: Any, *given: Any) -> Any:
        if len(steps) == 2:
            return real_step(engine, *given)
        with counted_waits(monkeypatch) as mode:
            result = real_step(engine, *given)
        steps.append(mode.lines)
        return result

    def batch(engine: Any, *given: Any) -> Any:
        with _disable_current_modes():
            padded = real_batch(engine, *given)
            if not isinstance(padded, Batch):
                return padded
            padded.shared_position(), [padded.value_targets(name) for name in padded.values]
            if padded.item is not None:
                padded.item_targets()
            return padded.to("cpu")

    real_outstanding = StepsAhead.outstanding

    def outstanding(ahead: Any) -> Any:
        """What a GPU has copied to the host by itself."""
        with _disable_current_modes():
            return real_outstanding(ahead)

    with monkeypatch.context() as patch:
        patch.setattr(StepsAhead, "outstanding", outstanding)
        step_ahead(patch)
        patch.setattr(TorchEngine, "step", step)
        patch.setattr(TorchEngine, "_batch", batch)
        # Whether an item occurs again is looked up there, too.
        patch.setattr(two_part, "_check_no_target_repeats", lambda batch, again: None)
        fit()
    return steps[-1]
