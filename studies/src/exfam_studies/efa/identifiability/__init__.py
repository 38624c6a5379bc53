"""Whether two fits of one model have the same embeddings up to an affine map."""

from exfam_studies.efa.identifiability.alignment import (
    AffineMap,
    Alignment,
    BothWays,
    affine_map,
    align,
    explained,
    rotation_map,
    shuffled_contexts,
)
from exfam_studies.efa.identifiability.diversity import (
    Diversity,
    context_diversity,
    item_diversity,
    shift_diversity,
)
from exfam_studies.efa.identifiability.embeddings import (
    ItemEmbeddings,
    item_embeddings,
    mean_divergence,
    shuffled_names,
)
from exfam_studies.efa.identifiability.theory import check_items, failed_diversity
from exfam_studies.efa.identifiability.values import (
    ValueEmbeddings,
    check_values,
    value_counterexample,
    value_diversity,
    value_embeddings,
)

__all__ = [
    "AffineMap",
    "Alignment",
    "BothWays",
    "Diversity",
    "ItemEmbeddings",
    "ValueEmbeddings",
    "affine_map",
    "align",
    "check_items",
    "check_values",
    "context_diversity",
    "explained",
    "failed_diversity",
    "item_diversity",
    "item_embeddings",
    "mean_divergence",
    "rotation_map",
    "shift_diversity",
    "shuffled_contexts",
    "shuffled_names",
    "value_counterexample",
    "value_diversity",
    "value_embeddings",
]
