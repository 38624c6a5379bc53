"""Views of a model: what the page is given at first, and the questions that it may ask.

A new view is a module here with a class as `ExplorerView` describes it, a line in `VIEWS`, and a
module of the page with its line in page.js. The first view of a kind of data is the one that the
page opens with; questions of views that stand beside each other have different names.
"""

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

    `name`: of the module of the page; `questions`: by name, what answers them
    """

    name: str
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
    "fields": ("stations:StationsView",),
    "groups": ("items:ItemsView",),
    "tables": ("row:RowView",),
}


def explorer_views(model: Any, data: Any = None) -> list[ExplorerView]:
    """The views of a fitted model. Raises ExfamError where there is none."""
    kind = getattr(model, "kind", None)
    reads = REGISTRY[kind].reads if kind in REGISTRY else ""
    names = [f"exfam.explorer.views.{name}" for name in VIEWS.get(reads, ())]
    found: list[Any] = [
        view for view in map(pkgutil.resolve_name, names) if view.shows(model, data)
    ]
    if not found:
        raise ExfamError(
            "`model` must be one of groups, tables or fields to be explored, got "
            f"{type(model).__name__}. Use `write_report` for a page about it."
        )
    return [view(model, data) for view in found]
