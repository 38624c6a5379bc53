"""Text as token ids: a vocabulary, ids that are mapped into memory, how words are sampled."""

from exfam.data.text.dumps import dump_lines, is_dump
from exfam.data.text.prepare import prepare_text
from exfam.data.text.prepared import PreparedText, is_prepared_text, open_text
from exfam.data.text.reading import Progress
from exfam.data.text.sampling import keep_probability, noise_probability
from exfam.data.text.vocabulary import Vocabulary

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
