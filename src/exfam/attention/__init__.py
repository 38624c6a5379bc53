"""Attention from parts: who may attend, how scores become weights, blocks around it."""

from exfam.attention.attention import Attended, Attention, NullToken
from exfam.attention.blocks import (
    CONNECTIONS,
    Block,
    Connection,
    FeedForward,
    Plain,
    PostNorm,
    PreNorm,
    Residual,
    build_block,
)
from exfam.attention.kernels import SCORE_KERNELS, Linear, Mean, ReluMean, ScoreKernel, Softmax
from exfam.attention.visibility import Visibility

__all__ = [
    "CONNECTIONS",
    "SCORE_KERNELS",
    "Attended",
    "Attention",
    "Block",
    "Connection",
    "FeedForward",
    "Linear",
    "Mean",
    "NullToken",
    "Plain",
    "PostNorm",
    "PreNorm",
    "ReluMean",
    "Residual",
    "ScoreKernel",
    "Softmax",
    "Visibility",
    "build_block",
]
