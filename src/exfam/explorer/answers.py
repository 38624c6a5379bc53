"""Answers as the page gets them: the same question is answered once, and answers are kept."""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from anyio import CapacityLimiter, to_thread

from exfam.checks import ExfamError
from exfam.explorer.questions import Question
from exfam.explorer.views import Answer, ExplorerView

# Answers that are computed at a time, and of those that take seconds: the others wait, and memory
# stays bounded.
_AT_ONCE, _SLOW_AT_ONCE = 2, 1
# Bytes of answers that are kept.
MOST_KEPT = 2**25


class Answers:
    """What views answer, as bytes of JSON beside the status of the response.

    Of one loop of events alone. Kept are the answers that were given last, but for refusals and for
    what is `partial`, which will be another answer later.
    """

    def __init__(self, views: Sequence[ExplorerView]) -> None:
        self.questions = {name: own for view in views for name, own in view.questions.items()}
        self._slow = {name for view in views for name in view.slow}
        self._quick, self._long = CapacityLimiter(_AT_ONCE), CapacityLimiter(_SLOW_AT_ONCE)
        self._running: dict[tuple[str, bytes], asyncio.Future[tuple[int, bytes]]] = {}
        self._kept: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._size = 0

    async def started(self, view: ExplorerView) -> Answer:
        """What a view needs before any question."""
        return await to_thread.run_sync(view.start, limiter=self._quick)

    async def to(self, name: str, body: bytes) -> tuple[int, bytes]:
        """To a question, given as it was sent."""
        key = (name, body)
        if key in self._kept:
            self._kept.move_to_end(key)
            return 200, self._kept[key]
        if key not in self._running:
            # A task of its own: whoever asked first may go, and others still wait for it.
            self._running[key] = asyncio.ensure_future(self._computed(key))
        return await asyncio.shield(self._running[key])

    async def _computed(self, key: tuple[str, bytes]) -> tuple[int, bytes]:
        name, body = key
        limiter = self._long if name in self._slow else self._quick
        try:
            # A thread: the loop goes on with other requests.
            answerer = partial(_answered, self.questions[name], body)
            answer, is_final = await to_thread.run_sync(answerer, limiter=limiter)
        except ExfamError as error:
            return 400, json.dumps({"error": str(error)}).encode()
        finally:
            del self._running[key]
        if is_final:
            self._keep(key, answer)
        return 200, answer

    def _keep(self, key: tuple[str, bytes], answer: bytes) -> None:
        self._kept[key] = answer
        self._size += len(answer)
        while self._size > MOST_KEPT:
            self._size -= len(self._kept.popitem(last=False)[1])


def _answered(answerer: Any, body: bytes) -> tuple[bytes, bool]:
    """An answer, and whether it stays the same."""
    answer = answerer(_question(body))
    content = json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return content.encode(), not answer.get("partial")


def _question(body: bytes) -> Question:
    try:
        question = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ExfamError(f"A question must be JSON, got something else: {error}.") from error
    if not isinstance(question, Mapping):
        raise ExfamError("A question must be an object of JSON.")
    return question
