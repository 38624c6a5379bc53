"""Attention from parts: who may attend, how scores become weights, blocks around it."""

from exfam.attention.attention import (
    CONNECTIONS,
    SCORE_KERNELS,
    Attention,
    Block,
    Connection,
    FeedForward,
    Linear,
    Mean,
    NullToken,
    ReluMean,
    ScoreKernel,
    Softmax,
    Visibility,
    build_block,
)

__all__ = [
    "CONNECTIONS",
    "SCORE_KERNELS",
    "Attention",
    "Block",
    "Connection",
    "FeedForward",
    "Linear",
    "Mean",
    "NullToken",
    "ReluMean",
    "ScoreKernel",
    "Softmax",
    "Visibility",
    "build_block",
]
