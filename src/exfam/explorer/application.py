"""The ASGI application: files of the page, and questions answered as JSON."""

import secrets
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from exfam.checks import ExfamError
from exfam.explorer.answers import Answers
from exfam.explorer.cell import CELL
from exfam.explorer.views import ExplorerView

MOST_BYTES = 200_000
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

    by_name = {view.name: view for view in views}
    answers = Answers(views)

    async def page(request: Request) -> Response:
        return _file(request.path_params.get("name") or "page.html")

    async def start(request: Request) -> Response:
        view = by_name.get(request.path_params.get("view", views[0].name))
        if view is None:
            return JSONResponse({"error": "There is no such view."}, 404)
        started = await answers.started(view)
        return JSONResponse({"view": view.name, "views": list(by_name), **started})

    async def ask(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in answers.questions:
            return JSONResponse({"error": "There is no such question."}, 404)
        try:
            status, answer = await answers.to(name, await _body(request))
        except ExfamError as error:
            return JSONResponse({"error": str(error)}, 400)
        return Response(answer, status, media_type="application/json")

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


async def _body(request: Request) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0]
    if kind != "application/json":
        raise ExfamError("A question must be JSON, sent as application/json.")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise ExfamError(f"A question must have at most {MOST_BYTES:,} bytes.")
    return bytes(body)


def _file(name: str) -> Response:
    found = files("exfam.explorer").joinpath("page", name)
    kind = _TYPES.get(name.rpartition(".")[2])
    if kind is None or "/" in name or not found.is_file():
        return PlainTextResponse("No such page.", status_code=404)
    return Response(found.read_bytes(), media_type=kind)
