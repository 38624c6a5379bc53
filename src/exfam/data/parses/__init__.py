"""Parsed sentences: dependencies of words."""

from exfam.data.parses.conllu import DependencyParse, parses_of, read_conllu

__all__ = ["DependencyParse", "parses_of", "read_conllu"]
