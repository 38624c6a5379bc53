"""Bidirectional attention as a mixture of continuous word experts."""
