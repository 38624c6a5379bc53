"""Sentences as they are written: words with the blanks between them, and their capitals."""

from dataclasses import dataclass, replace

from exfam_studies.positions.parses import Tree, plain_words

_NAMES = ("NNP", "NNPS")
_QUOTES = ('"', "''", "``", "\u201c", "\u201d")


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence, marks of punctuation among them.

    `glued`: whether there is no blank before a word
    `names`: whether a word is a name, which keeps its capital inside a sentence

    >>> str(Sentence(("I", "'m", "here", "."), (True, True, False, True), (False,) * 4))
    "I'm here."
    """

    words: tuple[str, ...]
    glued: tuple[bool, ...]
    names: tuple[bool, ...]

    def __str__(self) -> str:
        pairs = zip(self.words, self.glued, strict=True)
        return "".join(word if glued else f" {word}" for word, glued in pairs).strip()

    def _first(self) -> int | None:
        return next((place for place, word in enumerate(self.words) if is_word(word)), None)

    @property
    def begins_with_capital(self) -> bool:
        """Whether its first word does."""
        first = self._first()
        return first is not None and self.words[first][0].isupper()

    def uncapitalized(self) -> "Sentence":
        """With its first word as inside a sentence: names, I, and words such as TV stay."""
        first = self._first()
        if first is None or self.names[first] or self.words[first] == "I":
            return self
        word = self.words[first]
        return self._with(first, word if word[1:] != word[1:].lower() else word.lower())

    def capitalized(self) -> "Sentence":
        """With a capital at the beginning of its first word."""
        first = self._first()
        if first is None:
            return self
        word = self.words[first]
        return self._with(first, word[0].upper() + word[1:])

    def _with(self, place: int, word: str) -> "Sentence":
        words = (*self.words[:place], word, *self.words[place + 1 :])
        return replace(self, words=words)


def is_word(text: str) -> bool:
    """Whether there is a letter or a digit: no mark of punctuation.

    >>> is_word("'s"), is_word("...")
    (True, False)
    """
    return any(letter.isalnum() for letter in text)


def tree_sentence(tree: Tree, *, text: str) -> Sentence | None:
    """The sentence of a tree as the text writes it.

    None where the text is not made of the tree's words, in this order and with blanks at most
    between them: a parser may have rewritten some.
    """
    at, words, glued = 0, [], []
    for word in plain_words(tree):
        start = len(text) - len(text[at:].lstrip())
        form = next((form for form in _forms(word) if text.startswith(form, start)), None)
        if form is None:
            return None
        words.append(form)
        glued.append(start == at or not words[1:])
        at = start + len(form)
    if text[at:].strip():
        return None
    names = tuple(tag in _NAMES for _, tag in tree.pos())
    return Sentence(tuple(words), tuple(glued), names)


def written_words(sentence: Sentence) -> tuple[Sentence, tuple[int, ...]]:
    """The sentence by what stands between blanks and punctuation, and where each word went.

    What a parser takes apart, such as "man" and "'s", is one word again.

    >>> sentence = Sentence(("I", "'m", "here", "."), (True, True, False, True), (False,) * 4)
    >>> whole, place = written_words(sentence)
    >>> whole.words, place
    (("I'm", 'here', '.'), (0, 0, 1, 2))
    """
    words: list[str] = []
    heads: list[int] = []
    place: list[int] = []
    for at, (word, glued) in enumerate(zip(sentence.words, sentence.glued, strict=True)):
        if at and glued and is_word(word) and is_word(sentence.words[at - 1]):
            words[-1] += word
        else:
            words.append(word)
            heads.append(at)
        place.append(len(words) - 1)
    glues = tuple(sentence.glued[at] for at in heads)
    names = tuple(sentence.names[at] for at in heads)
    return Sentence(tuple(words), glues, names), tuple(place)


def _forms(word: str) -> tuple[str, ...]:
    """How a text may write what a parser calls so."""
    if word in _QUOTES:
        return _QUOTES
    return word, word.replace("\\/", "/").replace("\\*", "*")
