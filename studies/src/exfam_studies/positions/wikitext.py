"""Sentences of WikiText, whose lines are paragraphs of words apart by spaces."""

from collections.abc import Iterable, Iterator, Sequence

_UNKNOWN = "<unk>"
# Words that WikiText has cut: 1 @,@ 000 and red @-@ tipped.
_JOINTS = {"@,@": ",", "@.@": ".", "@-@": "-"}
_ENDS = (".", "?", "!")
_PAIRS = (("(", ")"), ("[", "]"))


def wikitext_sentences(
    lines: Iterable[Sequence[str]], *, least: int = 5, most: int = 28
) -> Iterator[tuple[str, ...]]:
    """Whole sentences of known words alone; headings, lists and what is cut badly are left out.

    A sentence ends with a full stop, question mark or exclamation mark that stands as a word; it
    begins with a capital letter or a digit, has no "<unk>", and its brackets and quotation marks
    are closed. Cut words are joined.

    `least`: words of a sentence, punctuation included (default 5)
    `most`: of them (default 28)
    """
    for line in lines:
        if line and line[0] != "=":
            for words in _cut(line):
                joined = _joined(words)
                if least <= len(joined) <= most and _is_whole(joined):
                    yield joined


def _cut(line: Sequence[str]) -> Iterator[list[str]]:
    """The line's sentences; a quotation mark that closes one after its end belongs to it."""
    sentence: list[str] = []
    for place, word in enumerate(line):
        sentence.append(word)
        is_open = sentence.count('"') % 2 == 1
        closes = is_open and line[place + 1 : place + 2] == ['"']
        if (word in _ENDS and not closes) or (word == '"' and not is_open and _ended(sentence)):
            yield sentence
            sentence = []


def _ended(sentence: Sequence[str]) -> bool:
    return len(sentence) > 1 and sentence[-2] in _ENDS


def _joined(words: Sequence[str]) -> tuple[str, ...]:
    joined: list[str] = []
    glue = ""
    for word in words:
        if word in _JOINTS and joined:
            glue = _JOINTS[word]
        elif glue:
            joined[-1] += glue + word
            glue = ""
        else:
            joined.append(word)
    return tuple(joined)


def _is_whole(words: Sequence[str]) -> bool:
    begins = next((word for word in words if word != '"'), "")
    ends = next((word for word in reversed(words) if word != '"'), "")
    closed = all(words.count(opening) == words.count(closing) for opening, closing in _PAIRS)
    return (
        (begins[:1].isupper() or begins[:1].isdigit())
        and ends in _ENDS
        and closed
        and words.count('"') % 2 == 0
        and not any(_UNKNOWN in word for word in words)
    )
