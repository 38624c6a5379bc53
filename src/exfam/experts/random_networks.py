"""Networks with random weights, to try the expert view on."""

import torch

from exfam.experts.bundle import AttentionLayer, LinearAttention, LinearAttentionStack


def random_stack(
    generator: torch.Generator,
    *,
    n_layers: int,
    n_heads: int = 2,
    n_positions: int = 3,
    n_tokens: int = 7,
    embed: int = 6,
) -> LinearAttentionStack:
    """A stack of linear attention layers in float64, with heads of 2 and 4 outputs.

    >>> random_stack(torch.Generator().manual_seed(0), n_layers=2).n_positions
    3
    """
    head, params = 2, 4

    def draw(*shape: int) -> torch.Tensor:
        return 0.6 * torch.randn(*shape, generator=generator, dtype=torch.float64)

    layers = tuple(
        AttentionLayer(
            query=draw(n_heads, head, embed),
            key=draw(n_heads, head, embed),
            value=draw(n_heads, head, embed),
            query_bias=draw(n_heads, head),
            value_bias=draw(n_heads, head),
            out=draw(n_heads, embed, head),
            out_bias=draw(embed),
            hidden=draw(embed, embed),
            hidden_bias=draw(embed),
            scale=head**-0.5,
        )
        for _ in range(n_layers)
    )
    return LinearAttentionStack(
        tokens=draw(n_tokens, embed),
        mask=draw(embed),
        positions=draw(n_positions, embed),
        layers=layers,
        readout=draw(n_positions, params, embed),
        readout_bias=draw(n_positions, params),
    )


def random_network(
    generator: torch.Generator,
    *,
    n_heads: int = 2,
    n_positions: int = 3,
    n_tokens: int = 7,
    embed: int = 6,
) -> LinearAttention:
    """A network of one linear attention layer in float64, with heads of 2 and 4 outputs.

    >>> random_network(torch.Generator().manual_seed(0), n_heads=3).n_heads
    3
    """
    stack = random_stack(
        generator,
        n_layers=1,
        n_heads=n_heads,
        n_positions=n_positions,
        n_tokens=n_tokens,
        embed=embed,
    )
    (layer,) = stack.layers
    return LinearAttention(
        tokens=stack.tokens,
        mask=stack.mask,
        positions=stack.positions,
        readout=stack.readout,
        readout_bias=stack.readout_bias,
        query=layer.query,
        key=layer.key,
        value=layer.value,
        query_bias=layer.query_bias,
        value_bias=layer.value_bias,
        out=layer.out,
        out_bias=layer.out_bias,
        hidden=layer.hidden,
        hidden_bias=layer.hidden_bias,
        scale=layer.scale,
    )
