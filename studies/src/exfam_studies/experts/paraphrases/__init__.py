"""Why linear word analogies hold or fail: word sets that paraphrase each other."""

from exfam_studies.experts.paraphrases.analogies import (
    TERMS,
    AnalogyErrors,
    AttentionScales,
    Factors,
    analogy_errors,
    attention_scales,
    truncated_factors,
)
from exfam_studies.experts.paraphrases.failures import FailurePredictor, failure_predictors
from exfam_studies.experts.paraphrases.lemmas import check_lemma_11
from exfam_studies.experts.paraphrases.propositions import check_proposition_4, check_proposition_5
from exfam_studies.experts.paraphrases.windows import (
    Windows,
    attention_windows,
    sentence_windows,
    text_windows,
)
from exfam_studies.experts.paraphrases.word_sets import (
    ParaphraseTerms,
    WordSets,
    factorized_matrix,
    paraphrase_terms,
)

__all__ = [
    "TERMS",
    "AnalogyErrors",
    "AttentionScales",
    "Factors",
    "FailurePredictor",
    "ParaphraseTerms",
    "Windows",
    "WordSets",
    "analogy_errors",
    "attention_scales",
    "attention_windows",
    "check_lemma_11",
    "check_proposition_4",
    "check_proposition_5",
    "factorized_matrix",
    "failure_predictors",
    "paraphrase_terms",
    "sentence_windows",
    "text_windows",
    "truncated_factors",
]
