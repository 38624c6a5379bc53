"""The ASGI application: files of the page, and questions answered as JSON."""

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import partial
from importlib.resources import files
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from exfam.checks import ExfamError
from exfam.explorer.cell import CELL
from exfam.explorer.views import ExplorerView

MOST_BYTES = 200_000
# Answers that are computed at a time: the others wait, and memory stays bounded.
_AT_ONCE = 3
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}

# Notebooks of this machine, of whatever port, and of editors, may show the page in a cell.
_NOTEBOOKS = "http://localhost:* http://127.0.0.1:* https://localhost:* vscode-webview:"
_IN_CELL = {
    "Content-Security-Policy": POLICY.replace("ancestors 'none'", f"ancestors {_NOTEBOOKS}")
}


def application(views: Sequence[ExplorerView], *, token: str, hosts: Sequence[str]) -> Any:
    """What a server runs: the page under /`token`/, its questions under /`token`/ask/.

    `views`: the first one is shown at first; no two have a question of the same name
    `hosts`: names of this server; others in a request's Host or Origin are refused, so that no page
    of another site can ask, even where its name is made to lead here
    """

    answering = CapacityLimiter(_AT_ONCE)
    by_name = {view.name: view for view in views}
    questions = {name: answers for view in views for name, answers in view.questions.items()}

    async def page(request: Request) -> Response:
        return _file(request.path_params.get("name") or "page.html")

    async def start(request: Request) -> Response:
        view = by_name.get(request.path_params.get("view", views[0].name))
        if view is None:
            return _json({"error": "There is no such view."}, status=404)
        return _json(
            {
                "view": view.name,
                "views": list(by_name),
                **await to_thread.run_sync(view.start, limiter=answering),
            }
        )

    async def ask(request: Request) -> Response:
        answerer = questions.get(request.path_params["name"])
        if answerer is None:
            return _json({"error": "There is no such question."}, status=404)
        try:
            question = await _question(request)
            # A thread: the loop goes on with other requests.
            answer = await to_thread.run_sync(partial(answerer, question), limiter=answering)
            return _json(answer)
        except ExfamError as error:
            return _json({"error": str(error)}, status=400)

    routes = [
        Route("/{token}/", page),
        Route("/{token}/start", start),
        Route("/{token}/start/{view}", start),
        Route("/{token}/ask/{name}", ask, methods=["POST"]),
        Route("/{token}/{name}", page),
    ]
    return Starlette(routes=routes, middleware=[Middleware(_Guard, token=token, hosts=hosts)])


class _Guard:
    """Refuses requests that are not from the page itself; adds headers to all answers."""

    def __init__(self, app: Any, *, token: str, hosts: Sequence[str]) -> None:
        self.app, self.token, self.hosts = app, token, hosts

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        given = scope["path"].partition("/")[2].partition("/")[0]
        origin = headers.get("origin")
        refusal = None
        if headers.get("host") not in self.hosts:
            refusal = PlainTextResponse("Unknown host.", status_code=421)
        elif origin is not None and origin not in [f"http://{host}" for host in self.hosts]:
            refusal = PlainTextResponse("Another site may not ask.", status_code=403)
        elif not secrets.compare_digest(given.encode(), self.token.encode()):
            refusal = PlainTextResponse("No such page.", status_code=404)

        in_cell = scope["query_string"] == CELL.encode()

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = HEADERS | (_IN_CELL if in_cell else {})
                added = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await (refusal or self.app)(scope, receive, with_headers)


async def _question(request: Request) -> Mapping[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0]
    if kind != "application/json":
        raise ExfamError("A question must be JSON, sent as application/json.")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise ExfamError(f"A question must have at most {MOST_BYTES:,} bytes.")
    try:
        question = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ExfamError(f"A question must be JSON, got something else: {error}.") from error
    if not isinstance(question, dict):
        raise ExfamError("A question must be an object of JSON.")
    return question


def _file(name: str) -> Response:
    found = files("exfam.explorer").joinpath("page", name)
    kind = _TYPES.get(name.rpartition(".")[2])
    if kind is None or "/" in name or not found.is_file():
        return PlainTextResponse("No such page.", status_code=404)
    return Response(found.read_bytes(), media_type=kind)


def _json(content: Any, status: int = 200) -> JSONResponse:
    return JSONResponse(content, status_code=status)
