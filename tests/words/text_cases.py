"""Texts and preparations that the tests of text share."""

from dataclasses import replace

from exfam.reading.text.numbering import Pace
from exfam.reading.text.prepare import preparation_of, prepare_into
from exfam.reading.text.text_options import TextOptions

LINES = [
    "the cat sat on the mat",
    "",
    "the dog saw a cat",
    "é 日本 the\u3000cat\xa0of ß",
    "a mat a dog a cat",
]
TEXT = "\n".join(LINES) + "\n"
OPTIONS = TextOptions(1, None, "lines", False, None, 1000)


def prepared(source, folder, *, pace=None, known=None, resume=True, overwrite=False, **options):
    """What `prepare_text` does, of pieces and states of a given size."""
    chosen = replace(OPTIONS, **options)
    pace = Pace() if pace is None else pace
    preparation = preparation_of(source, options=chosen, known=known, pace=pace)
    return prepare_into(folder, preparation, resume=resume, overwrite=overwrite)


def sentences_of(text):
    """The sentences of a prepared text as lists of words."""
    sentences, words = [], text.vocabulary.words
    for token in text.tokens.tolist():
        if not sentences or closed:
            sentences.append([])
        closed = token < 0
        if not closed:
            sentences[-1].append(words[token])
    assert closed, "the last sentence ends too"
    return sentences


def contents(folder):
    """Name -> bytes of all files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
