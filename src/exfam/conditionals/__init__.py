"""All conditionals of a group at once: what each element's hidden state is when it is hidden.

`copies` is the definition: one masked copy of the group for each element. The others give the same
(`two_stream`, `exact`) or a slightly different model (`static`) without making copies.

    copies       any network; I forward passes over a group of I elements
    two_stream   causal, any depth: content never sees a mask, so one stream serves all queries
    exact        bidirectional, one layer; or two layers without feed-forward or layer norm
    static       keys and values come from each token alone, at every layer: any depth, one pass

`Windowed` has another one work on long causal groups window by window.
"""

from exfam.conditionals.base import Conditional, Copies, Hidden, Static, Tokens, TwoStream
from exfam.conditionals.exact import CONDITIONALS, Exact, choose_conditional
from exfam.conditionals.windows import Windowed

__all__ = [
    "CONDITIONALS",
    "Conditional",
    "Copies",
    "Exact",
    "Hidden",
    "Static",
    "Tokens",
    "TwoStream",
    "Windowed",
    "choose_conditional",
]
