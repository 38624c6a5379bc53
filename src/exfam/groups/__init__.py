"""Groups of elements as ragged columns, and the padded batches made of them."""

from typing import TYPE_CHECKING

from exfam.groups.groups import CONTEXT, TARGET, Groups
from exfam.lazy import lazy_names

if TYPE_CHECKING:
    from exfam.groups.batch import Batch

__all__ = ["CONTEXT", "TARGET", "Batch", "Groups"]

# Batches are of tensors: torch is imported with them.
__getattr__ = lazy_names(__name__, {"Batch": "exfam.groups.batch"})
