"""What became of one input: accepted, refused in words, or a failure and where it was raised."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import exfam
from exfam.checks import ExfamError

FAILURES = ("traceback", "non-finite", "hang", "memory")
OUTCOMES = ("accepted", "refused", *FAILURES)
_SOURCE = str(Path(exfam.__file__).parent)


class NonFinite(Exception):
    """A result is not finite, and nothing was said."""


class BrokenPromise(Exception):
    """A command ended in another way than it promises."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of an input; of a failure also the line that raised, and the error."""

    outcome: str
    where: str = ""
    error: str = ""


def judge(run: Callable[[], Any]) -> Verdict:
    """The verdict on a call, which returns False where it was refused in words."""
    try:
        accepted = run() is not False
    except ExfamError:
        return Verdict("refused")
    except NonFinite as error:
        return Verdict("non-finite", _raising_line(error), _in_words(error))
    except MemoryError as error:
        return Verdict("memory", _raising_line(error), _in_words(error))
    except Exception as error:
        memory = isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
        return Verdict("memory" if memory else "traceback", _raising_line(error), _in_words(error))
    return Verdict("accepted" if accepted else "refused")


def check_finite(name: str, value: Any) -> None:
    """Raise NonFinite unless all numbers in nested results are finite."""
    if isinstance(value, dict):
        for key, entry in value.items():
            check_finite(f"{name}[{key!r}]", entry)
        return
    numbers = np.asarray(value)
    if numbers.dtype.kind in "fc" and not np.isfinite(numbers).all():
        bad = numbers[~np.isfinite(numbers)]
        raise NonFinite(f"{name}: {bad.size} of {numbers.size} numbers are {bad.flat[0]}")


def _raising_line(error: BaseException) -> str:
    """The deepest line of exfam in the traceback; the deepest of all where none is exfam's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(_SOURCE)]
    frame = (own or frames)[-1]
    file = frame.filename.removeprefix(_SOURCE).lstrip("/")
    return f"{file}:{frame.lineno} {frame.name}"


def _in_words(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}".encode(errors="backslashreplace").decode()
    return " ".join(text.split())[:300]
