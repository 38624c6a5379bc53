"""Why linear word analogies hold or fail: word sets that paraphrase each other."""

from exfam_studies.experts.paraphrases.analogies import (
    TERMS,
    AnalogyErrors,
    RelationErrors,
    analogy_errors,
    by_relation,
)
from exfam_studies.experts.paraphrases.conditions import (
    ContextConditions,
    context_conditions,
)
from exfam_studies.experts.paraphrases.enumeration import Enumerated, enumerate_law
from exfam_studies.experts.paraphrases.factors import (
    AttentionScales,
    Factors,
    attention_scales,
    factors_of,
    truncated_factors,
)
from exfam_studies.experts.paraphrases.failures import FailurePredictor, failure_predictors
from exfam_studies.experts.paraphrases.laws import WordLaw
from exfam_studies.experts.paraphrases.lemmas import check_lemma_11, check_lemma_15, disjoint_pairs
from exfam_studies.experts.paraphrases.propositions import (
    check_proposition_4,
    check_proposition_5,
    check_proposition_7,
    check_proposition_8,
)
from exfam_studies.experts.paraphrases.terms import (
    ParaphraseTerms,
    factorized_matrix,
    paraphrase_terms,
)
from exfam_studies.experts.paraphrases.windows import (
    Windows,
    attention_windows,
    sentence_windows,
    text_windows,
)

__all__ = [
    "TERMS",
    "AnalogyErrors",
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
