"""One stream of centers that attends to a stream of content."""

from collections.abc import Sequence

from exfam.attention import Block, Visibility
from exfam.conditionals.base import Conditional, Hidden, Tokens, attend


class TwoStream(Conditional):
    """Causal: content attends to earlier content and itself; centers attend to earlier content."""

    def refusal(self, blocks: Sequence[Block], visibility: Visibility) -> str | None:
        return None if visibility.causal else "'two_stream' is for direction='causal'"

    def hide(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        self.check(blocks, visibility)
        context, content_sees = (
            visibility.context(tokens.present),
            visibility.content(tokens.present),
        )
        content, center, weights = tokens.content, tokens.center, []
        for i, block in enumerate(blocks):
            center, used = attend(block, center, content, tokens, context, visibility.sees_mask)
            weights.append(used)
            if i + 1 < len(blocks):
                content, _ = attend(block, content, content, tokens, content_sees)
        return Hidden(center, tuple(weights))


class Static(Conditional):
    """Centers attend, at every layer, to keys and values made from each token alone.

    An exact conditional of a slightly different model: context elements do not change each other.
    With one layer it is the same model as `copies`.
    """

    def refusal(self, blocks: Sequence[Block], visibility: Visibility) -> str | None:
        return None

    def hide(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        context = visibility.context(tokens.present)
        center, weights = tokens.center, []
        for block in blocks:
            center, used = attend(
                block, center, tokens.content, tokens, context, visibility.sees_mask
            )
            weights.append(used)
        return Hidden(center, tuple(weights))
