"""Arrays whose owners are not counted: inside loops of compiled functions.

Numba counts who refers to an array, by an atomic instruction for each name that is given to it. In
a loop over windows of text that is a quarter of the time.
"""

from typing import Any, no_type_check

from numba import njit, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic


@intrinsic
@no_type_check
def _borrow(typing_context, held):
    if not isinstance(held, types.Array | types.BaseTuple):
        raise TypingError(f"`held` must be an array or a tuple of arrays, got {held}.")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, held, arguments[0])

    return held(held), generate


@no_type_check
def _without_owner(context, builder, kind, value):
    if isinstance(kind, types.BaseTuple):
        parts = cgutils.unpack_tuple(builder, value, len(kind))
        members = [
            _without_owner(context, builder, part_kind, part)
            for part_kind, part in zip(kind, parts, strict=True)
        ]
        return context.make_tuple(builder, kind, members)
    if not isinstance(kind, types.Array):
        return value
    view = context.make_array(kind)(context, builder, value)
    for name in ("meminfo", "parent"):
        setattr(view, name, cgutils.get_null_value(getattr(view, name).type))
    return view._getvalue()


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def borrowed(held):
    """The array, or each array of a tuple, as a view that does not keep it alive.

    Only for arguments of a compiled function, which their caller keeps, and within it.
    """
    return _borrow(held)
