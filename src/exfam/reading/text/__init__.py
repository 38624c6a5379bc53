"""Text as token ids: a vocabulary, ids that are mapped into memory, how words are sampled."""

from exfam.reading.text.dumps import dump_lines, is_dump
from exfam.reading.text.numbering import Progress
from exfam.reading.text.prepare import prepare_text
from exfam.reading.text.prepared_text import PreparedText, is_prepared_text, open_text
from exfam.reading.text.vocabulary import Vocabulary, keep_probability, noise_probability

__all__ = [
    "PreparedText",
    "Progress",
    "Vocabulary",
    "dump_lines",
    "is_dump",
    "is_prepared_text",
    "keep_probability",
    "noise_probability",
    "open_text",
    "prepare_text",
]
