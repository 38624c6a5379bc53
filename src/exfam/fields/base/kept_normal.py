"""What is normal at new places, kept: a map of them is wanted again, of other times and changes."""

from collections.abc import Callable
from threading import Lock

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from exfam.fields.base.new_sites import NewNormal

# Places that are kept, 24 bytes each and their keys.
MOST_KEPT = 50_000

Rows = Float64[Tensor, "places numbers"]


class KeptNormal:
    """Level, spread and doubt by place, as long as what they are computed from is not changed."""

    def __init__(self) -> None:
        self._kept: dict[bytes, tuple[float, float, float]] = {}
        self._source: tuple[int, ...] = ()
        self._lock = Lock()

    def __reduce__(self) -> tuple[type["KeptNormal"], tuple[()]]:
        return KeptNormal, ()

    def of(
        self, rows: Rows, source: Tensor, compute: Callable[[Int64[Tensor, "some"]], NewNormal]
    ) -> NewNormal:
        """What is normal at places; `compute` gives that of some, by their index.

        `rows`: the numbers that each place is known by; `source`: what `compute` reads: after a
            change of it in place all are computed anew
        """
        state = (id(source), 0 if source.is_inference() else source._version)
        keys = [row.tobytes() for row in rows.numpy()]
        with self._lock:
            if state != self._source or len(self._kept) > MOST_KEPT:
                self._kept, self._source = {}, state
            kept = self._kept
        missing = [k for k, key in enumerate(keys) if key not in kept]
        if missing:
            new = torch.stack(compute(torch.tensor(missing)), -1).tolist()
            kept.update(
                (keys[k], (one[0], one[1], one[2])) for k, one in zip(missing, new, strict=True)
            )
        numbers = torch.tensor([kept[key] for key in keys], dtype=rows.dtype).reshape(-1, 3)
        return NewNormal(*numbers.unbind(-1))
