"""The server of the page: on this machine alone, under an address that nobody guesses.

Uses Starlette and uvicorn, which the extra `explore` installs.
"""

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from exfam.checks import ExfamError
from exfam.explorer.cell import framed, in_notebook
from exfam.explorer.views import explorer_views

LOOPBACK = "127.0.0.1"
# Seconds: between looks for Ctrl-C, and for requests that are being answered.
_GLANCE, _WAIT = 0.2, 10.0


class Explorer:
    """A page that is being served, at `address`, until `stop` is called."""

    def __init__(self, address: str, server: Any, listener: socket.socket) -> None:
        self.address, self._server = address, server
        # An event: a thread whose `join` was cut short by Ctrl-C counts as ended when it is not.
        self._ended = threading.Event()
        threading.Thread(target=self._run, args=(listener,), daemon=True).start()

    def _run(self, listener: socket.socket) -> None:
        try:
            self._server.run([listener])
        finally:
            listener.close()
            self._ended.set()

    def __repr__(self) -> str:
        return f"Explorer at {self.address}"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """What notebooks show: the page itself, in the cell."""
        return {"text/plain": repr(self), "text/html": framed(self.address)}

    def wait(self) -> None:
        """Serve until `stop`, or until Ctrl-C."""
        try:
            while not self._ended.wait(_GLANCE):
                pass
        except KeyboardInterrupt:
            self.stop()

    def stop(self) -> None:
        """Serve no longer. A second call does nothing."""
        self._server.should_exit = True
        self._ended.wait(_WAIT)

    def __enter__(self) -> "Explorer":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def explore(
    model: Any,
    data: Any = None,
    *,
    attributes: Any = None,
    against: Any = None,
    compare: Any = None,
    port: Any = 0,
    open_browser: bool | None = None,
) -> Explorer:
    """Serve a page on which a fitted model answers "what if", and open it in the browser.

    Models of groups: items are clicked in and out, and what comes next follows. Of tables: the
    cells of a row. Of words, and of items: a map of their vectors. The page is for this machine
    alone: the server listens on the loopback, and its address holds a random word without which it
    answers nothing. Nothing is written to any file.
    `data`: groups or rows to begin with, as the model takes them; of words, their attributes
    `attributes`: a frame or a file that says something of items, by which their map is colored; one
        column names them
    `against`: a second model of the same kind of data, whose errors stand beside those of the first
    `compare`: other data, to see what has moved since `data`
    `port`: of the loopback; 0 for one that is free
    `open_browser`: whether to open the page, by default unless in a notebook, whose cell shows it
        where it is the result; its address is `Explorer.address`

    The server runs in a thread of its own until `Explorer.stop`.
    Raises ExfamError for a model without such a page, for a port that is taken, and where the extra
    `explore` is not installed.

    >>> from exfam import EFA
    >>> frame = {"basket": [1, 1, 2, 2], "item": ["tea", "milk", "tea", "bread"]}
    >>> model = EFA(group="basket", item="item", attention="none", progress=False).fit(frame)
    >>> with explore(model, open_browser=False) as page:
    ...     page.address.startswith("http://127.0.0.1:")
    True
    """
    uvicorn, application = _installed()
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 2**16:
        raise ExfamError(f"`port` must be a whole number, 0 .. 65535, got {port!r}.")
    views = explorer_views(model, data, attributes=attributes, against=against, compare=compare)
    token = secrets.token_urlsafe(24)
    with _listening(port) as listener:
        own = listener.getsockname()[1]
        hosts = (f"{LOOPBACK}:{own}", f"localhost:{own}")
        app = application(views, token=token, hosts=hosts)
        settings = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off")
        server = uvicorn.Server(settings)
        # It is listening already: whoever asks before the server runs will wait.
        explorer = Explorer(f"http://{LOOPBACK}:{own}/{token}/", server, listener.dup())
    if open_browser or (open_browser is None and not in_notebook()):
        webbrowser.open(explorer.address)
    return explorer


@contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    # Of TCP by name: asyncio sends at once, not when 40 ms have passed, where it knows that.
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
        except OSError as error:
            raise ExfamError(
                f"`port` must be free on this machine, got {port}: {error.strerror}. Leave it out "
                "for one that is."
            ) from error
        listener.listen(128)
        yield listener


def _installed() -> tuple[Any, Callable[..., Any]]:
    """The server and our application, which need what the extra installs."""
    try:
        import uvicorn

        from exfam.explorer.application import application
    except ImportError as error:
        raise ExfamError(
            "`explore` needs the packages starlette and uvicorn, which are not installed. Install "
            'them: pip install "exfam[explore]".'
        ) from error
    return uvicorn, application
