"""All published test sets of words that are on this machine."""

from exfam.reading.public_sets import word_pairs, word_questions
from exfam.reading.public_sets.published import find_file
from exfam.reading.public_sets.word_pairs import WordPairs
from exfam.reading.public_sets.word_questions import WordQuestions


def published_word_sets() -> tuple[list[WordPairs | WordQuestions], list[str]]:
    """The published sets that are on this machine, and the names of the others."""
    sets: list[WordPairs | WordQuestions] = []
    missing = []
    # Each file of a source is of one set, in the same order.
    for names, source, read in (
        (word_pairs.PAIR_SETS, word_pairs.SOURCE, word_pairs.word_pairs),
        (word_questions.QUESTION_SETS, word_questions.SOURCE, word_questions.word_questions),
    ):
        for name, file in zip(names, source.md5, strict=True):
            if find_file(file) is None:
                missing.append(name)
            else:
                sets.append(read(name))
    return sets, missing
