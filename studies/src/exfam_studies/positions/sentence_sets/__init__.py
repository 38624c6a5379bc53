"""Sentences, or pairs of sentences, with a label or a number each: tasks and their files."""

from exfam_studies.positions.sentence_sets.formats import PAPER_TASKS, read_sentence_task
from exfam_studies.positions.sentence_sets.reading import read_labeled_sentences, read_sentence_tsv
from exfam_studies.positions.sentence_sets.tasks import SentencePart, SentenceTask

__all__ = [
    "PAPER_TASKS",
    "SentencePart",
    "SentenceTask",
    "read_labeled_sentences",
    "read_sentence_task",
    "read_sentence_tsv",
]
