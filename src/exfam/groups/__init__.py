"""Groups of elements as ragged columns, and the padded batches made of them."""

from typing import TYPE_CHECKING, Any

from exfam.groups.groups import CONTEXT, TARGET, Groups

if TYPE_CHECKING:
    from exfam.groups.batch import Batch

__all__ = ["CONTEXT", "TARGET", "Batch", "Groups"]


def __getattr__(name: str) -> Any:
    # Batches are of tensors: torch is imported with them.
    if name != "Batch":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from exfam.groups.batch import Batch

    return Batch
