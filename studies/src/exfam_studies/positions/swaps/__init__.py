"""Sentences with words in other places: whether whatever labels pairs of sentences sees it."""

from exfam_studies.positions.swaps.roles import Roles, RoleSwap, swap_roles
from exfam_studies.positions.swaps.scoring import SwapScore, swap_accuracy
from exfam_studies.positions.swaps.sentences import Sentence, tree_sentence
from exfam_studies.positions.swaps.sets import (
    SwappedPair,
    SwapSet,
    phrase_shuffles,
    role_swaps,
    swap_sets,
    word_shuffles,
)
from exfam_studies.positions.swaps.shuffles import phrases_of_length, shuffle_phrases, shuffle_words
from exfam_studies.positions.swaps.tree_roles import tree_roles

__all__ = [
    "RoleSwap",
    "Roles",
    "Sentence",
    "SwapScore",
    "SwapSet",
    "SwappedPair",
    "phrase_shuffles",
    "phrases_of_length",
    "role_swaps",
    "shuffle_phrases",
    "shuffle_words",
    "swap_accuracy",
    "swap_roles",
    "swap_sets",
    "tree_roles",
    "tree_sentence",
    "word_shuffles",
]
