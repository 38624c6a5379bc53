"""One file with a view of a model and all that it answers, which opens without a server."""

import base64
import gzip
import hashlib
import html
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from exfam.checks import ExfamError
from exfam.explorer.exported.item_tables import (
    groups_of_view,
    has_tables,
    item_tables,
    table_bytes,
)
from exfam.explorer.exported.written import can_be_written, questions_of
from exfam.explorer.questions import Question
from exfam.explorer.views import ExplorerView, explorer_views
from exfam.explorer.views.items import ItemsView
from exfam.files import check_page_path, write_atomically

MOST_BYTES = 5_000_000
_IMPORT = re.compile(r'from "\./([a-z_]+\.js)"')
_SERVER = "server.js"
_COMPUTED = "Answers are computed in this page from the tables of the model's base"
_WRITTEN = "This page holds answers that the model gave beforehand"


@dataclass(frozen=True)
class ExportedPage:
    """A page that was written: where, of how many bytes, and whether its answers are computed."""

    path: Path
    size: int
    how: str

    def __str__(self) -> str:
        return f"{self.path}: {self.size / 1e6:.1f} MB. {self.how}"


def write_explorer(
    model: Any,
    data: Any = None,
    *,
    path: str | os.PathLike[str],
    against: Any = None,
    compare: Any = None,
) -> ExportedPage:
    """Write the page of `explore` as one file that needs no server, no network and no Python.

    Of sets of items its answers are computed in the page, from the tables of the model's base: any
    basket, without attention. Of sequences, of items with values beside them, of rows and of maps
    they are those that the model gives of `data` as they are, errors included: nothing can be
    changed there. The page says which.
    `data`: groups, rows or maps, as the model takes them; needed but of sets of items
    `against`, `compare`: as of `explore`, for the errors where answers are written

    Raises ExfamError for a model without such a page, and where it would be larger than 5 MB.

    >>> import tempfile
    >>> from exfam import EASE
    >>> frame = {"basket": [1, 1, 2, 2], "item": ["tea", "milk", "tea", "bread"]}
    >>> model = EASE(group="basket", item="item").fit(frame)
    >>> page = write_explorer(model, frame, path=Path(tempfile.mkdtemp(), "page.html"))
    >>> page.size < 300_000
    True
    """
    check_page_path("path", path)
    views = explorer_views(model, data, against=against, compare=compare)
    first: Any = views[0]
    if not can_be_written(first):
        raise ExfamError(
            f"`model` must be of items, rows or maps for a page in one file, got "
            f"{type(model).__name__}. Serve its page with `explore`, or write a report."
        )
    if isinstance(first, ItemsView) and has_tables(model):
        content, how = _computed(first)
    else:
        if isinstance(first, ItemsView) and first.groups is None:
            raise ExfamError(
                "`data` must hold groups whose answers are written into the page, got none. Only "
                "those of sets of items alone with a base are computed in it."
            )
        content, how = _written([first, *(view for view in views[1:] if view.name == "errors")])
    text = page_of(content)
    if len(text) > MOST_BYTES:
        raise _too_large(f"{len(text) / 1e6:.1f} MB", _fewer(first))
    return ExportedPage(write_atomically(path, text), len(text), how)


def _computed(view: ItemsView) -> tuple[dict[str, Any], str]:
    """The tables of an item model."""
    n_items, room = len(view.names), _room()
    if (size := table_bytes(n_items)) > room:
        most = int((room / table_bytes(1)) ** 0.5)
        raise _too_large(
            f"{n_items:,} items with a table of {size / 1e6:.1f} MB",
            f"About {most:,} items fit: fit a model of the most frequent ones",
        )
    tables = item_tables(view)
    how = f"{_COMPUTED}, {n_items:,} items by as many: any basket can be tried."
    part: Any = view.model.members_[0].item_part
    if not part.is_alone:
        how += " What attention adds is left out, but for what goes with an item."
    tables["start"] |= {"views": ["items"], "view": "items", "gain": how}
    return {"tables": tables}, how


def _written(views: list[Any]) -> tuple[dict[str, Any], str]:
    """Answers to all that can be seen of the data as they are."""
    starts = {view.name: view.start() for view in views}
    answers, packer, size, room = [], zlib.compressobj(), 0, _room()
    for view in views:
        for name, question, answer in _answered(view):
            answers.append([name, question, answer])
            packed = packer.compress(json.dumps(answer).encode())
            size += len(packed) + len(packer.flush(zlib.Z_SYNC_FLUSH))
            if size > room:
                raise _too_large(f"more after {len(answers):,} answers", _fewer(views[0]))
    how = (
        f"{_WRITTEN}, {len(answers):,} of them, of the data as they are: nothing can be changed "
        "here. Serve the model with `exfam explore` to ask what if."
    )
    about = {"views": list(starts), "gain": how, "fixed": True}
    held = {name: {**start, **about, "view": name} for name, start in starts.items()}
    content: dict[str, Any] = {"starts": held, "answers": answers}
    if isinstance(views[0], ItemsView):
        held["items"] |= {"raises": False}
        content["catalog"] = {"names": views[0].names, "groups": groups_of_view(views[0])}
    return content, how


def _answered(view: ExplorerView) -> Iterator[tuple[str, Question, Mapping[str, Any]]]:
    """Questions of a view with their answers; those that it refuses are left out."""
    for name, question in questions_of(view):
        try:
            yield name, question, view.questions[name](question)
        except ExfamError:
            continue


def _fewer(view: Any) -> str:
    return f"Give fewer {'groups' if view.name == 'items' else 'rows or maps'} as `data`"


def _too_large(what: str, remedy: str) -> ExfamError:
    return ExfamError(
        f"`path` must be a page of at most {MOST_BYTES / 1e6:g} MB, got {what}. {remedy}, or serve "
        "the model with `explore`."
    )


def _room() -> int:
    """Bytes of packed data that a page has room for: base64 makes four of three."""
    return (MOST_BYTES - len(page_of({}))) * 3 // 4


def page_of(content: Mapping[str, Any]) -> bytes:
    """The page's files in one, with what it answers from."""
    own = {part.name: part.read_text("utf-8") for part in _files()}
    modules = {name: text for name, text in own.items() if name.endswith(".js")}
    # What answers in the page stands in for what asks the server.
    modules[_SERVER] = modules.pop("exported.js")
    addresses = {f"exfam/{name}": _address(text) for name, text in modules.items()}
    imports = json.dumps({"imports": addresses})
    begin, style = 'import "exfam/page.js";', own["explore.css"]
    policy = (
        f"default-src 'none'; script-src data: {_hash(imports)} {_hash(begin)}; "
        f"style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    packed = base64.b64encode(gzip.compress(json.dumps(content).encode(), mtime=0)).decode()
    head = [
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">',
        f"<style>{style}</style>",
        f'<script type="importmap">{imports}</script>',
        f'<script type="text/plain" id="answers">{packed}</script>',
        f'<script type="module">{begin}</script>',
    ]
    page = re.sub(r'<(link rel="stylesheet"|script)[^>]*>(</script>)?\n', "", own["page.html"])
    return page.replace("</head>", "\n".join([*head, "</head>"])).encode()


def _files() -> Iterator[Any]:
    return (part for part in files("exfam.explorer").joinpath("page").iterdir() if part.is_file())


def _address(module: str) -> str:
    """A module as an address of its own, whose imports are by name."""
    text = _IMPORT.sub(r'from "exfam/\1"', module)
    return f"data:text/javascript;base64,{base64.b64encode(text.encode()).decode()}"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
