"""Recommendations over HTTP: an ASGI application of a fitted model, without a framework.

pip install uvicorn
EXFAM_MODEL=model OMP_NUM_THREADS=1 uvicorn --app-dir examples/serving --factory app:application
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import exfam

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
MOST_BYTES, MOST_ITEMS = 100_000, 1_000
USAGE = 'the body must be JSON such as {"items": ["milk"], "k": 3}'


class Recommender:
    """POST /recommend, {"items": ["milk"], "k": 3}: items and their probabilities."""

    def __init__(self, model: Any, *, threads: int = 2) -> None:
        self.model, self.threads = model, ThreadPoolExecutor(threads)
        # The first request builds the index of all labels.
        self.recommend(model.vocabulary_["item"][:1].tolist(), k=1)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"`scope` must be of HTTP, got {scope['type']!r}")
        if (scope["method"], scope["path"]) == ("POST", "/recommend"):
            status, answer = await self.answer(receive)
        else:
            status, answer = 404, {"error": "use POST /recommend"}
        start = {"type": "http.response.start", "status": status}
        await send({**start, "headers": [(b"content-type", b"application/json")]})
        body = json.dumps(answer).encode()
        await send({"type": "http.response.body", "body": body})

    async def answer(self, receive: Receive) -> tuple[int, dict[str, Any]]:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > MOST_BYTES:
                return 413, {"error": f"a request has at most {MOST_BYTES} bytes"}
        try:
            request = json.loads(body)
            items, k = request["items"], request.get("k", 10)
        except (ValueError, KeyError, TypeError, AttributeError):
            return 400, {"error": USAGE}
        is_list = isinstance(items, list) and len(items) <= MOST_ITEMS
        if not is_list or not all(isinstance(item, str | int) for item in items):
            return 422, {"error": f"items are at most {MOST_ITEMS} labels in a list"}
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self.threads, self.recommend, items, k)
        except exfam.ExfamError as error:
            return 422, {"error": str(error)}
        return 200, found

    def recommend(self, items: list[Any], k: int) -> dict[str, Any]:
        found = self.model.recommend(items, k=k)
        probabilities = found.probabilities[0].tolist()
        return {"items": found.items[0].tolist(), "probabilities": probabilities}


def application() -> Recommender:
    """The model that EXFAM_MODEL names, as a server builds it."""
    return Recommender(exfam.load(os.environ["EXFAM_MODEL"]))
