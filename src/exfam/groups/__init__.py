"""Groups of elements as ragged columns, and the padded batches made of them."""

from exfam.groups.flat import Batch
from exfam.groups.groups import CONTEXT, TARGET, Groups

__all__ = ["CONTEXT", "TARGET", "Batch", "Groups"]
