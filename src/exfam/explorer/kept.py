"""What views share: results that are kept, and names that are searched."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64, Shaped

_Result = TypeVar("_Result")


class Recent(Generic[_Result]):
    """The results that were used last, `most` of them. Any number of threads may use it."""

    def __init__(self, most: int) -> None:
        self._most, self._results = most, OrderedDict[Hashable, _Result]()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._results)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._results

    def of(self, key: Hashable, compute: Callable[[], _Result]) -> _Result:
        """What was computed for this key, or is now."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        result = compute()
        with self._lock:
            self._results[key] = result
            while len(self._results) > self._most:
                self._results.popitem(last=False)
        return result


class NameSearch:
    """Finds names by a part of them, upper or lower case."""

    def __init__(self, names: Sequence[str], rank: Shaped[np.ndarray, "names"]) -> None:
        """`rank`: the least comes first."""
        self._folded = pa.array([name.casefold() for name in names], pa.large_string())
        self._rank = rank

    def codes(self, text: str) -> Int64[np.ndarray, "found"]:
        """Of the names that hold a text: those that begin with it first, then by rank."""
        wanted = text.casefold().strip()
        # Arrow's searches leave the interpreter free for other threads.
        found = np.flatnonzero(pc.match_substring(self._folded, wanted))
        begins = np.asarray(pc.starts_with(self._folded.take(found), wanted), dtype=bool)
        return found[np.lexsort((self._rank[found], ~begins))]
