"""Rows of a large matrix asked for before they are needed."""

from typing import Any, no_type_check

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["prefetch_rows"]

# A line of the cache, in float32.
_LINE = 16
# For reading, into the second level of the cache, as data.
_HINTS = (0, 2, 1)


@intrinsic
@no_type_check
def _prefetch(typing_context, array, row, column):
    """A hint to the processor: nothing is read, so that no address is wrong."""
    signature = types.void(array, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        held = context.make_array(kind)(context, builder, arguments[0])
        place = cgutils.get_item_pointer(
            context, builder, kind, held, list(arguments[1:]), wraparound=False
        )
        address = builder.bitcast(place, cgutils.voidptr_t)
        number = ir.IntType(32)
        form = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        hint = cgutils.get_or_insert_function(builder.module, form, "llvm.prefetch.p0")
        builder.call(hint, [address, *(ir.Constant(number, value) for value in _HINTS)])
        return context.get_dummy_value()

    return signature, generate


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def prefetch_rows(matrix, words, first, last):
    """Ask for the rows of a float32 matrix that words[first:last] name; no result is changed by it.

    Words below 0 are passed over.

    >>> prefetch_rows(np.zeros((2, 16), np.float32), np.array([1, -1]), 0, 2)
    """
    dim = matrix.shape[1]
    for i in range(first, last):
        word = np.int64(words[i])
        if word >= 0:
            for column in range(0, dim, _LINE):
                _prefetch(matrix, word, column)
