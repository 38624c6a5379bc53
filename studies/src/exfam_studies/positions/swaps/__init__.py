"""Sentences with words in another order: whether whatever labels pairs of sentences sees it."""
