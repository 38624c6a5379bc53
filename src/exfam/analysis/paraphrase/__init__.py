"""Why linear word analogies hold or fail: word sets that paraphrase each other."""

from exfam.analysis.paraphrase.analogies import (
    TERMS,
    AnalogyErrors,
    RelationErrors,
    analogy_errors,
    by_relation,
)
from exfam.analysis.paraphrase.conditions import (
    Asymmetry,
    ContextConditions,
    asymmetry,
    context_conditions,
)
from exfam.analysis.paraphrase.enumeration import Enumerated, enumerate_law
from exfam.analysis.paraphrase.factors import (
    AttentionScales,
    Factors,
    attention_scales,
    factors_of,
    truncated_factors,
)
from exfam.analysis.paraphrase.failures import FailurePredictor, failure_predictors
from exfam.analysis.paraphrase.laws import WordLaw
from exfam.analysis.paraphrase.lemmas import check_lemma_11, check_lemma_15, disjoint_pairs
from exfam.analysis.paraphrase.propositions import (
    check_proposition_4,
    check_proposition_5,
    check_proposition_7,
    check_proposition_8,
)
from exfam.analysis.paraphrase.terms import ParaphraseTerms, factorized_matrix, paraphrase_terms
from exfam.analysis.paraphrase.windows import (
    Windows,
    attention_windows,
    sentence_windows,
    text_windows,
)

__all__ = [
    "TERMS",
    "AnalogyErrors",
    "Asymmetry",
    "AttentionScales",
    "ContextConditions",
    "Enumerated",
    "Factors",
    "FailurePredictor",
    "ParaphraseTerms",
    "RelationErrors",
    "Windows",
    "WordLaw",
    "analogy_errors",
    "asymmetry",
    "attention_scales",
    "attention_windows",
    "by_relation",
    "check_lemma_11",
    "check_lemma_15",
    "check_proposition_4",
    "check_proposition_5",
    "check_proposition_7",
    "check_proposition_8",
    "context_conditions",
    "disjoint_pairs",
    "enumerate_law",
    "factorized_matrix",
    "factors_of",
    "failure_predictors",
    "paraphrase_terms",
    "sentence_windows",
    "text_windows",
    "truncated_factors",
]
