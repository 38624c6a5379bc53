"""Linear attention as a mixture of experts: the network's weights, and its parts that add up."""

from exfam.models.experts.bundle import AttentionLayer, LinearAttention, LinearAttentionStack

__all__ = ["AttentionLayer", "LinearAttention", "LinearAttentionStack"]
