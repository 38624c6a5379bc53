"""Views of a model: what the page is given at first, and the questions that it may ask.

A new view is a module here with a class as `ExplorerView` describes it, a line in `VIEWS`, and a
module of the page with its line in page.js. The first view of a kind of data is the one that the
page opens with; questions of views that stand beside each other have different names.
"""

import os
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from exfam.checks import ExfamError
from exfam.estimator.registry import REGISTRY
from exfam.explorer.questions import Question

Answer = dict[str, Any]


@runtime_checkable
class ExplorerView(Protocol):
    """What a page shows of a model; answers are ready for JSON.

    `name`: of the module of the page; `questions`: by name, what answers them; `slow`: of these the
    ones that may take seconds
    """

    name: str
    slow: tuple[str, ...]
    questions: Mapping[str, Callable[[Question], Answer]]

    @staticmethod
    def shows(model: Any, data: Any) -> bool:
        """Whether there is anything to see of this model and these data."""
        ...

    def start(self) -> Answer:
        """What the page needs before any question."""
        ...


# What a model reads, by the registry -> the classes of its views.
VIEWS: dict[str, tuple[str, ...]] = {
    "encoder": ("attention:AttentionView", "vectors:VectorsView"),
    "fields": ("stations:StationsView",),
    "groups": ("items:ItemsView", "vectors:VectorsView", "attention:AttentionView"),
    "sentences": ("attention:AttentionView", "vectors:VectorsView"),
    "text": ("attention:AttentionView", "vectors:VectorsView"),
    "vectors": ("vectors:VectorsView",),
    "tables": ("row:RowView", "attention:AttentionView"),
}


def explorer_views(
    model: Any,
    data: Any = None,
    *,
    attributes: Any = None,
    against: Any = None,
    compare: Any = None,
) -> list[ExplorerView]:
    """The views of a fitted model, of word vectors or of an encoder; that of errors last.

    `attributes`: a table by which the map of a model's items is colored
    `against`, `compare`: a second model and other data, for the view of errors
    Raises ExfamError where there is no view, and for what no view shows.
    """
    from exfam.explorer.views.errors import ErrorsView

    names = [f"exfam.explorer.views.{name}" for name in VIEWS.get(_reads(model), ())]
    found: list[Any] = [
        view for view in map(pkgutil.resolve_name, names) if view.shows(model, data)
    ]
    if not found:
        is_path = isinstance(model, str | os.PathLike)
        advice = "Load it first: exfam.load" if is_path else "`write_report` is for every model"
        raise ExfamError(
            "`model` must be one of groups, tables, fields or words to be explored, got "
            f"{type(model).__name__}. {advice}."
        )
    views: list[Any] = [view(model, data) for view in found]
    by_name = {view.name: view for view in views}
    if {"row", "attention"} <= set(by_name):
        by_name["attention"].source.rows = by_name["row"]
    if attributes is not None:
        colored = next((view for view in views if hasattr(view, "color")), None)
        if colored is None:
            raise ExfamError(
                f"`attributes` must be left out for {type(model).__name__}, which has no map of "
                "words or items."
            )
        colored.color(attributes)
    for name, beside in (("against", against), ("compare", compare)):
        if beside is not None and not ErrorsView.shows(model, data):
            raise ExfamError(f"`{name}` must be left out without data whose errors can be shown.")
    if ErrorsView.shows(model, data):
        views.append(ErrorsView(model, data, against=against, compare=compare))
    return views


def _reads(model: Any) -> str:
    kind = getattr(model, "kind", None)
    if kind in REGISTRY:
        return REGISTRY[kind].reads
    if hasattr(model, "most_similar"):
        return "vectors"
    return "encoder" if hasattr(model, "word_attention") else ""
