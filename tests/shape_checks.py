"""What checks shapes and types of exfam while its tests run."""

from typing import Any

from beartype import beartype


def checked(function):
    """What jaxtyping checks a function with, each argument once.

    It makes two functions of each: the first checks the arguments, the second what is returned
    and, of itself, all arguments once more. Sizes that the first has seen bind the second.
    """
    returned = function.__annotations__.get("return", Any)
    if returned is not Any:
        function.__annotations__ = {"return": returned}
    return beartype(function)
