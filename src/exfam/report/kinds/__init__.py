"""What a report says of each kind of model: one builder each, found by what the model reads.

A new kind is a module here, whose builder takes a fitted model and a `ReportRequest` and returns a
`ReportContent`, and a line in `BUILDERS`.
"""

import pkgutil
from collections.abc import Callable
from typing import Any

from exfam.checks import ExfamError
from exfam.estimator.registry import REGISTRY
from exfam.report.contents import ReportContent, ReportRequest

# What a model reads by the registry, or the name of a class that is no estimator -> its builder.
BUILDERS = {
    "communities": "communities:community_report",
    "events": "events:event_report",
    "fields": "fields:field_report",
    "groups": "groups:group_report",
    "tables": "tables:table_report",
    "text": "word_vectors:word_report",
    "WordVectors": "word_vectors:word_report",
}


def builder_of(model: Any) -> Callable[[Any, ReportRequest], ReportContent]:
    """The builder of a model's report. Raises ExfamError where there is none."""
    name = type(model).__name__
    kind = getattr(model, "kind", None)
    reads = REGISTRY[kind].reads if kind in REGISTRY else name
    if reads not in BUILDERS:
        raise ExfamError(
            f"`model` must be one that a report is written about, got {name}. Those of "
            f"{', '.join(BUILDERS)} are."
        )
    builder: Callable[[Any, ReportRequest], ReportContent] = pkgutil.resolve_name(
        f"exfam.report.kinds.{BUILDERS[reads]}"
    )
    return builder
