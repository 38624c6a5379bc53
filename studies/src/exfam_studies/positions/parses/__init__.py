"""Parsed sentences: dependencies of words, and constituents."""

from exfam_studies.positions.parses.brackets import (
    Constituent,
    Tree,
    constituents,
    depth,
    parse_brackets,
    plain_words,
)
from exfam_studies.positions.parses.conllu import DependencyParse, parses_of, read_conllu

__all__ = [
    "Constituent",
    "DependencyParse",
    "Tree",
    "constituents",
    "depth",
    "parse_brackets",
    "parses_of",
    "plain_words",
    "read_conllu",
]
