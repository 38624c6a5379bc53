"""Text as token ids: a vocabulary, ids that are mapped into memory, how words are sampled."""

from exfam.data.text.prepare import PreparedText, prepare_text
from exfam.data.text.sampling import keep_probability, noise_probability
from exfam.data.text.vocabulary import Vocabulary

__all__ = [
    "PreparedText",
    "Vocabulary",
    "keep_probability",
    "noise_probability",
    "prepare_text",
]
