"""All conditionals of a group at once: what each element's hidden state is when it is hidden.

`copies` is the definition: one masked copy of the group for each element. The others give the same
(`two_stream`, `exact`) or a slightly different model (`static`) without making copies.

    copies       any network; I forward passes over a group of I elements
    two_stream   causal, any depth: content never sees a mask, so one stream serves all queries
    exact        bidirectional, one layer; or two layers without feed-forward or layer norm
    static       keys and values come from each token alone, at every layer: any depth, one pass
"""

from collections.abc import Sequence

from exfam.attention import Block, Visibility
from exfam.checks import ExfamError
from exfam.conditionals.base import Conditional, Hidden, Tokens
from exfam.conditionals.copies import Copies
from exfam.conditionals.exact import Exact
from exfam.conditionals.streams import Static, TwoStream

__all__ = [
    "CONDITIONALS",
    "Conditional",
    "Copies",
    "Exact",
    "Hidden",
    "Static",
    "Tokens",
    "TwoStream",
    "choose_conditional",
]

CONDITIONALS: dict[str, type[Conditional]] = {
    "copies": Copies,
    "exact": Exact,
    "static": Static,
    "two_stream": TwoStream,
}


def choose_conditional(
    name: str, *, blocks: Sequence[Block], visibility: Visibility
) -> Conditional:
    """The conditional of that name; "auto" takes an exact one-pass form if there is one.

    Raises ExfamError where the named one does not serve the network.
    """
    if name == "auto":
        exact = Exact()
        return Static() if exact.refusal(blocks, visibility) else exact
    if name not in CONDITIONALS:
        listed = ", ".join(repr(choice) for choice in ["auto", *CONDITIONALS])
        raise ExfamError(f"`conditional` must be one of {listed}, got {name!r}.")
    chosen = CONDITIONALS[name]()
    chosen.check(blocks, visibility)
    return chosen
