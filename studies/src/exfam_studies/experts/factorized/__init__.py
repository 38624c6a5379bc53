"""What embeddings factorize: matrices from a corpus, and how far fitted vectors agree with them."""

from exfam_studies.experts.factorized.agreement import Agreement, agreement, agreement_by_band
from exfam_studies.experts.factorized.attention import (
    AttentionFactors,
    GammaSums,
    attention_factors,
    attention_log_matrix,
    attention_matrix,
    gamma_sums,
)
from exfam_studies.experts.factorized.matrices import (
    FactorMatrix,
    asymmetry,
    cbow_linear_matrix,
    cbow_log_matrix,
    sgns_excused_matrix,
    sgns_matrix,
)
from exfam_studies.experts.factorized.pairs import CountedPairs, count_word_pairs

__all__ = [
    "Agreement",
    "AttentionFactors",
    "CountedPairs",
    "FactorMatrix",
    "GammaSums",
    "agreement",
    "agreement_by_band",
    "asymmetry",
    "attention_factors",
    "attention_log_matrix",
    "attention_matrix",
    "cbow_linear_matrix",
    "cbow_log_matrix",
    "count_word_pairs",
    "gamma_sums",
    "sgns_excused_matrix",
    "sgns_matrix",
]
