"""Agents and patients of verbs, by the relations of Universal Dependencies."""

from exfam_studies.positions.parses import DependencyParse
from exfam_studies.positions.swaps.roles import Roles, Span

__all__ = ["dependency_roles"]

_PAIRED = frozenset('"()[]{}\u201c\u201d') | {"``", "''"}


def dependency_roles(parse: DependencyParse) -> list[Roles]:
    """The roles of each verb that is not an auxiliary, in the order of the verbs.

    Of an active verb the agent is its `nsubj` and the patient its `obj`; of a passive one the
    patient is its `nsubj:pass` and the agent what "by" leads to (`obl:agent`, or `obl` with "by").
    A verb joined to another one by "and" has that one's subject if it has none of its own. The
    subject of a relative clause is what the clause is about ("a man who plays", "a man playing", "a
    song sung by"), up to the clause. Other pronouns that ask or relate are no subjects.

    Spans are all words below a dependent, without punctuation at the ends; a dependent whose words
    do not stand together has no span.

    >>> import numpy as np
    >>> parse = DependencyParse(
    ...     ("Songs", "are", "sung", "by", "men"), ("NOUN", "AUX", "VERB", "ADP", "NOUN"),
    ...     ("",) * 5, np.array([2, 2, -1, 4, 2]),
    ...     ("nsubj:pass", "aux:pass", "root", "case", "obl:agent"))
    >>> dependency_roles(parse)
    [Roles(verb=2, agent=(4, 4), patient=(0, 0))]
    """
    return _Reader(parse).roles()


class _Reader:
    """A parse with what is below each word."""

    def __init__(self, parse: DependencyParse) -> None:
        self.parse = parse
        self.below: list[list[int]] = [[] for _ in parse.words]
        for word, head in enumerate(parse.heads.tolist()):
            if head >= 0:
                self.below[head].append(word)

    def roles(self) -> list[Roles]:
        verbs = [place for place, tag in enumerate(self.parse.tags) if tag == "VERB"]
        return [self._roles(verb) for verb in verbs]

    def _roles(self, verb: int) -> Roles:
        passive = self._is_passive(verb)
        subject = self._subject(verb)
        if passive:
            agent, patient = self._by(verb), subject
        else:
            agent, patient = subject, self._span(self._child(verb, "obj"))
        return Roles(verb, agent, patient)

    def _child(self, head: int, *relations: str) -> int | None:
        found = (each for each in self.below[head] if self.parse.relations[each] in relations)
        return next(found, None)

    def _is_passive(self, verb: int) -> bool:
        if self._child(verb, "nsubj:pass", "aux:pass", "csubj:pass") is not None:
            return True
        features = self.parse.features[verb].split("|")
        if "Voice=Pass" in features:
            return True
        # Of "a song sung by men", where older files do not tell the voice.
        is_past = "VerbForm=Part" in features and "Tense=Past" in features
        return is_past and self.parse.relations[verb] == "acl"

    def _subject(self, verb: int) -> Span | None:
        subject = self._child(verb, "nsubj", "nsubj:pass")
        if subject is None:
            return self._unsaid_subject(verb)
        if self._is_relative(subject):
            is_clause = self.parse.relations[verb] == "acl:relcl"
            return self._antecedent(verb) if is_clause else None
        return self._span(subject)

    def _unsaid_subject(self, verb: int) -> Span | None:
        """That of the verb it is joined to, or what a clause without one is about."""
        relation, head = self.parse.relations[verb], int(self.parse.heads[verb])
        if relation == "conj" and self.parse.tags[head] == "VERB":
            # Verbs of two voices have other roles for the same subject.
            same = self._is_passive(head) == self._is_passive(verb)
            return self._subject(head) if same else None
        infinite = "VerbForm=Inf" in self.parse.features[verb].split("|")
        return self._antecedent(verb) if relation == "acl" and not infinite else None

    def _is_relative(self, word: int) -> bool:
        features = self.parse.features[word].split("|")
        return any(f"PronType={kind}" in features for kind in ("Rel", "Int", "Int,Rel"))

    def _antecedent(self, clause: int) -> Span | None:
        """What a clause is about: all words of its head before the clause."""
        head = int(self.parse.heads[clause])
        first = min(self._all_below(clause))
        return self._together([word for word in self._all_below(head) if word < first], keep=head)

    def _by(self, verb: int) -> Span | None:
        for each in self.below[verb]:
            relation = self.parse.relations[each]
            case = self._child(each, "case")
            by = case is not None and self.parse.words[case].lower() == "by"
            if by and relation in ("obl:agent", "obl"):
                words = [word for word in self._all_below(each) if word != case]
                return self._together(words, keep=each)
        return None

    def _span(self, word: int | None) -> Span | None:
        if word is None or self._is_relative(word):
            return None
        return self._together(self._all_below(word), keep=word)

    def _all_below(self, word: int) -> list[int]:
        """The word and all that depend on it, in the sentence's order."""
        found = [word]
        for each in found:
            found.extend(self.below[each])
        return sorted(found)

    def _together(self, words: list[int], *, keep: int) -> Span | None:
        """The span of words that stand together, without "and" and punctuation at its ends."""
        while words and self._is_loose(words[-1], words):
            words = words[:-1]
        while words and self._is_loose(words[0], words):
            words = words[1:]
        if keep not in words or words[-1] - words[0] + 1 != len(words):
            return None
        return words[0], words[-1]

    def _is_loose(self, word: int, words: list[int]) -> bool:
        if self.parse.relations[word] == "cc":
            return True
        # A quotation mark or bracket stays where the other one of the two is.
        paired = [each for each in words if self.parse.words[each] in _PAIRED]
        return self.parse.tags[word] == "PUNCT" and not (word in paired and len(paired) % 2 == 0)
