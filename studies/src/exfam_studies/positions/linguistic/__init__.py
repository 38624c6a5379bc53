"""What sentence vectors know of language: ten probing tasks, made of sentences and parses.

Source: Conneau et al. (2018), "What you can cram into a single vector".
"""

from exfam_studies.positions.linguistic.baselines import HashedWords, LengthAlone
from exfam_studies.positions.linguistic.coordination import coordination_inversion_task
from exfam_studies.positions.linguistic.morphology import (
    object_number_task,
    subject_number_task,
    tense_task,
)
from exfam_studies.positions.linguistic.odd_word import (
    BigramCounts,
    count_bigrams,
    kinds_of_words,
    odd_word_task,
)
from exfam_studies.positions.linguistic.order import bigram_shift_task
from exfam_studies.positions.linguistic.scoring import (
    ProbeScore,
    SentenceEncoder,
    TaskFeatures,
    probe_task,
    task_features,
)
from exfam_studies.positions.linguistic.splitting import Rule, Sizes, balanced_task
from exfam_studies.positions.linguistic.surface import sentence_length_task, word_content_task
from exfam_studies.positions.linguistic.tasks import Example, ProbingTask
from exfam_studies.positions.linguistic.trees import top_constituents_task, tree_depth_task

__all__ = [
    "BigramCounts",
    "Example",
    "HashedWords",
    "LengthAlone",
    "ProbeScore",
    "ProbingTask",
    "Rule",
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
