"""Compiled inner loops: counting words that occur together, updates of word vectors."""
