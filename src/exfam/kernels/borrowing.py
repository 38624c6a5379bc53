"""Arrays whose owners are not counted: inside loops of compiled functions.

Numba counts who refers to an array, by an atomic instruction for each name that is given to it. In
a loop over windows of text that is a quarter of the time. Rows that are needed soon can be fetched
from memory meanwhile.
"""

from typing import Any, no_type_check

import numpy as np
from llvmlite import ir
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


@intrinsic
@no_type_check
def _prefetch(typing_context, matrix, row, column):
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(matrix)(context, builder, arguments[0])
        pointer = cgutils.get_item_pointer(
            context, builder, matrix, array, arguments[1:], wraparound=False
        )
        pointer = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        call = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        # To be written, kept in all caches, data.
        builder.call(call, [pointer, number(1), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(matrix, types.int64, types.int64), generate


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
@no_type_check
def prefetch_rows(matrix, words):
    """Ask the processor for the rows of words (float32) while it does something else."""
    for word in words:
        for column in range(0, matrix.shape[1], 16):
            _prefetch(matrix, np.int64(word), column)
