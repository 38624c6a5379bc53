"""Sentences, or pairs of sentences, with a label or a number each: tasks and their files."""

from exfam_studies.positions.sentence_sets.paper_tasks import PAPER_TASKS, read_sentence_task
from exfam_studies.positions.sentence_sets.parts import SentencePart, SentenceTask

__all__ = ["PAPER_TASKS", "SentencePart", "SentenceTask", "read_sentence_task"]
