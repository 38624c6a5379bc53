"""What sentence vectors know of language: ten probing tasks, made of sentences and parses.

A task is a function from sentences or parses to labeled examples (`of_sentences`, `replacing`,
`of_parses`, `of_trees`), which `balancing` divides into parts; `scoring` learns the labels from
vectors.
Source: Conneau et al. (2018), "What you can cram into a single vector", section 2.
"""

from exfam_studies.positions.linguistic.balancing import (
    Example,
    ProbingTask,
    Sizes,
    balanced_task,
)
from exfam_studies.positions.linguistic.baselines import HashedWords, LengthAlone
from exfam_studies.positions.linguistic.of_parses import (
    coordination_inversion_task,
    object_number_task,
    subject_number_task,
    tense_task,
)
from exfam_studies.positions.linguistic.of_sentences import (
    bigram_shift_task,
    sentence_length_task,
    word_content_task,
)
from exfam_studies.positions.linguistic.of_trees import top_constituents_task, tree_depth_task
from exfam_studies.positions.linguistic.replacing import (
    BigramCounts,
    count_bigrams,
    kinds_of_words,
    odd_word_task,
)
from exfam_studies.positions.linguistic.scoring import (
    ProbeScore,
    SentenceEncoder,
    TaskFeatures,
    probe_task,
    task_features,
)

__all__ = [
    "BigramCounts",
    "Example",
    "HashedWords",
    "LengthAlone",
    "ProbeScore",
    "ProbingTask",
    "SentenceEncoder",
    "Sizes",
    "TaskFeatures",
    "balanced_task",
    "bigram_shift_task",
    "coordination_inversion_task",
    "count_bigrams",
    "kinds_of_words",
    "object_number_task",
    "odd_word_task",
    "probe_task",
    "sentence_length_task",
    "subject_number_task",
    "task_features",
    "tense_task",
    "top_constituents_task",
    "tree_depth_task",
    "word_content_task",
]
