"""What requests of one fitted model share: built at first need, and bounded in memory."""

import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any, TypeVar

import numpy as np
from torch import Tensor, nn

from exfam.columns.label_index import IndexedVocabulary

# Bytes of what is kept of one model, beside the index of its labels.
MOST_BYTES = 2**28

_Kept = TypeVar("_Kept")


class RequestCache:
    """The index of a model's labels, and results that several requests need.

    It stays true to the model: labels are known by their very arrays, and results go when a
    parameter or a buffer of a member has been replaced or changed in place. Copies and pickles of a
    model begin with an empty one. Any number of threads may use it at the same time.
    """

    def __init__(self) -> None:
        self._vocabulary = IndexedVocabulary({})
        self._results: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self._tensors: list[tuple[weakref.ref[Tensor], int]] = []
        self._lock = RLock()

    def __reduce__(self) -> tuple[type["RequestCache"], tuple[()]]:
        return RequestCache, ()

    def vocabulary(self, vocabulary: Mapping[str, np.ndarray]) -> IndexedVocabulary:
        """A vocabulary with the indexes of its labels."""
        indexed = self._vocabulary
        if not indexed.is_of(vocabulary):
            indexed = self._vocabulary = IndexedVocabulary(vocabulary)
        return indexed

    def result(
        self,
        key: Any,
        members: Sequence[nn.Module],
        compute: Callable[[], _Kept],
        *,
        size: Callable[[_Kept], int],
    ) -> _Kept:
        """What was computed for this key; computed, and kept if there is room, if it was not.

        Threads that need what is being computed wait for it. `size`: in bytes; what was used
        longest ago makes room
        """
        with self._lock:
            if not _are_same(self._tensors, members):
                self._results.clear()
                self._tensors = [(weakref.ref(x), _version(x)) for x in _tensors(members)]
            if key in self._results:
                self._results.move_to_end(key)
                kept: _Kept = self._results[key][0]
                return kept
            computed = compute()
            if size(computed) > MOST_BYTES:
                return computed
            self._results[key] = (computed, size(computed))
            while sum(held for _, held in self._results.values()) > MOST_BYTES:
                self._results.popitem(last=False)
            return computed

    def drop(self) -> None:
        """Forget all results: the model has changed."""
        with self._lock:
            self._results.clear()


def requests_of(estimator: Any) -> RequestCache:
    """What a fitted estimator keeps for its requests."""
    cache: RequestCache = estimator.__dict__.setdefault("_requests", RequestCache())
    return cache


def _tensors(members: Sequence[nn.Module]) -> list[Tensor]:
    return [x for member in members for x in (*member.parameters(), *member.buffers())]


def _version(tensor: Tensor) -> int:
    """How often a tensor was changed in place; 0 of one that does not count it."""
    return 0 if tensor.is_inference() else tensor._version


def _are_same(held: list[tuple[weakref.ref[Tensor], int]], members: Sequence[nn.Module]) -> bool:
    now = _tensors(members)
    return len(now) == len(held) and all(
        ref() is tensor and version == _version(tensor)
        for (ref, version), tensor in zip(held, now, strict=True)
    )
