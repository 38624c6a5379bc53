"""Why linear word analogies hold or fail: word sets that paraphrase each other."""

from exfam.analysis.paraphrase.enumeration import Enumerated, enumerate_law
from exfam.analysis.paraphrase.laws import WordLaw
from exfam.analysis.paraphrase.lemmas import check_lemma_11, check_lemma_15, disjoint_pairs
from exfam.analysis.paraphrase.terms import ParaphraseTerms, factorized_matrix, paraphrase_terms
from exfam.analysis.paraphrase.windows import (
    Windows,
    attention_windows,
    sentence_windows,
    text_windows,
)

__all__ = [
    "Enumerated",
    "ParaphraseTerms",
    "Windows",
    "WordLaw",
    "attention_windows",
    "check_lemma_11",
    "check_lemma_15",
    "disjoint_pairs",
    "enumerate_law",
    "factorized_matrix",
    "paraphrase_terms",
    "sentence_windows",
    "text_windows",
]
