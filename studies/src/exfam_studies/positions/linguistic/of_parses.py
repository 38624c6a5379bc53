"""Tasks made of parses: tense, number, clauses that swapped places, and how constituents nest.

Of tense and number, words whose form is the same are in one part alone, so that forms cannot be
learned by heart.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from exfam.checks import check_choice
from exfam_studies.positions.linguistic.balancing import (
    Example,
    ProbingTask,
    balanced_task,
    first_of_each,
)
from exfam_studies.positions.parses import DependencyParse
from exfam_studies.positions.trees import Tree, depth, is_leaf, plain_words

_NUMBERS = {"Sing": "singular", "Plur": "plural"}
# Task -> relation of the word to the main clause's verb, or "root" for that; feature; its values.
FEATURES = {
    "Tense": ("root", "Tense", {"Pres": "present", "Past": "past"}),
    "SubjNum": ("nsubj", "Number", _NUMBERS),
    "ObjNum": ("obj", "Number", _NUMBERS),
}
OTHER = "other"
# What treebanks put above a whole sentence.
_ABOVE = ("ROOT", "TOP")
Parses = Sequence[DependencyParse]


def feature_task(name: str, parses: Parses, **drawing: Any) -> ProbingTask:
    """Sentences labeled by a feature of a word of their main clause; its forms are groups.

    "Tense": whether the verb, which has no auxiliary, is in the present or past
    "SubjNum": whether the subject, if that is a common noun, is one or several
    "ObjNum": whether the direct object, if that is a common noun, is one or several

    Raises ExfamError for another name.
    """
    check_choice("name", name, FEATURES)
    relation, feature, names = FEATURES[name]
    examples = []
    for parse in parses:
        at = _finite_verb(parse) if relation == "root" else _only(parse, relation)
        if at is not None and (value := parse.features[at].get(feature)) in names:
            examples.append(Example(parse.words, names[value], group=parse.words[at].lower()))
    return balanced_task(name, tuple(names.values()), examples, **drawing)


def coordination_inversion_task(parses: Parses, **drawing: Any) -> ProbingTask:
    """CoordInv: whether the two clauses of "Cats sleep and dogs bark ." have changed places.

    Sentences of two main clauses with a subject each, a conjunction between them, and nothing
    besides but punctuation. They are rare: each is there in both orders, in the same part.
    """
    examples = []
    for parse in parses:
        if (clauses := _clauses(parse)) is not None:
            orders = {"original": parse.words, "inverted": _inverted(parse, *clauses)}
            group = " ".join(parse.words)
            examples += [Example(words, label, group) for label, words in orders.items()]
    return balanced_task("CoordInv", ("original", "inverted"), examples, **drawing)


def _root(parse: DependencyParse) -> int:
    return int((parse.heads < 0).argmax())


def _related(parse: DependencyParse, head: int, *relations: str) -> list[int]:
    """The words that depend on a head in some relations: "nsubj" also for "nsubj:pass"."""
    return [
        word
        for word, relation in enumerate(parse.relations)
        if parse.heads[word] == head and relation.split(":")[0] in relations
    ]


def _below(parse: DependencyParse, head: int) -> set[int]:
    """A word and all that depends on it, at whatever remove."""
    below = {head}
    for _ in range(len(parse)):
        below |= set(np.flatnonzero(np.isin(parse.heads, list(below))).tolist())
    return below


def _finite_verb(parse: DependencyParse) -> int | None:
    root = _root(parse)
    is_finite = parse.tags[root] == "VERB" and parse.features[root].get("VerbForm") == "Fin"
    return root if is_finite and not _related(parse, root, "aux", "cop") else None


def _only(parse: DependencyParse, relation: str) -> int | None:
    """The root's only dependent of such a relation, if it is a common noun."""
    words = _related(parse, _root(parse), relation)
    return words[0] if len(words) == 1 and parse.tags[words[0]] == "NOUN" else None


def _clauses(parse: DependencyParse) -> tuple[slice, slice] | None:
    """Where the two clauses are; None of a sentence that is not made of two."""
    root = _root(parse)
    joined = _related(parse, root, "conj")
    if len(joined) != 1:
        return None
    second = joined[0]
    conjunctions = _related(parse, second, "cc")
    has_more = _related(parse, second, "conj", "parataxis") or _related(parse, root, "cc")
    subjects = [_related(parse, verb, "nsubj", "csubj", "expl") for verb in (root, second)]
    if len(conjunctions) != 1 or has_more or not all(subjects):
        return None
    own, conjunction = _below(parse, second), conjunctions[0]
    end = _before_punctuation(parse, len(parse))
    first_end = _before_punctuation(parse, conjunction)
    # The second clause goes from its conjunction to the end.
    is_whole = {*range(conjunction, end)} <= own and own <= {*range(first_end, len(parse))}
    begins = min(word for word in own - {conjunction} if parse.tags[word] != "PUNCT")
    if not is_whole or not root < conjunction < begins or parse.tags[0] in ("PUNCT", "CCONJ"):
        return None
    return slice(0, first_end), slice(conjunction + 1, end)


def _before_punctuation(parse: DependencyParse, end: int) -> int:
    """The end of what comes before an index, without punctuation there."""
    while end and parse.tags[end - 1] == "PUNCT":
        end -= 1
    return end


def _inverted(parse: DependencyParse, one: slice, two: slice) -> tuple[str, ...]:
    """With the capitals of the new order: names, "I" and acronyms keep theirs."""
    words = parse.words
    first, second = list(words[one]), list(words[two])
    if (word := first[0])[:1].isupper():
        is_kept = parse.tags[0] == "PROPN" or word == "I" or word.startswith(("I'", "I’"))
        if not (is_kept or word[1:2].isupper()):
            first[0] = word[:1].lower() + word[1:]
        second[0] = second[0][:1].upper() + second[0][1:]
    return (*second, *words[one.stop : two.start], *first, *words[two.stop :])


def tree_depth_task(
    trees: Sequence[Tree],
    groups: Sequence[str],
    *,
    depths: Sequence[int] = (7, 8),
    seed: int = 0,
    **drawing: Any,
) -> ProbingTask:
    """TreeDepth: which of some ranges the depth of the tree is in.

    Deep trees are of long sentences: of each number of words, equally many sentences of each class
    are taken. Sentences of one of `groups`, such as those about one picture, stay in one part.

    `depths`: where the second class and those after it begin, all labels counted
    """
    pairs = [(low, following - 1) for low, following in itertools.pairwise(depths)]
    between = [f"{low}" if low == high else f"{low}-{high}" for low, high in pairs]
    names = (f"<={depths[0] - 1}", *between, f">={depths[-1]}")
    examples = _examples(
        trees, groups, lambda tree: names[int(np.searchsorted(depths, depth(tree), side="right"))]
    )
    alike = _with_lengths_alike(examples, names, np.random.default_rng(seed))
    return balanced_task("TreeDepth", names, alike, seed=seed, **drawing)


def top_constituents_task(
    trees: Sequence[Tree],
    groups: Sequence[str],
    *,
    n_frequent: int = 19,
    least: int = 100,
    **drawing: Any,
) -> ProbingTask:
    """TopConst: which constituents the sentence is made of, such as "S: NP VP .", or others.

    `n_frequent`: classes besides "other", at most; `least`: sentences that each of them needs
    """
    examples = _examples(trees, groups, _top)
    counts = Counter(example.label for example in examples)
    ordered = sorted(counts, key=lambda label: (-counts[label], label))[:n_frequent]
    frequent = [label for label in ordered if counts[label] >= least]
    named = [own if own.label in frequent else own._replace(label=OTHER) for own in examples]
    return balanced_task("TopConst", (*frequent, OTHER), named, **drawing)


def _examples(
    trees: Sequence[Tree], groups: Sequence[str], label: Callable[[Tree], str]
) -> list[Example]:
    return first_of_each(
        Example(plain_words(tree), label(tree), group)
        for tree, group in zip(trees, groups, strict=True)
    )


def _top(tree: Tree) -> str:
    is_above = tree.label() in _ABOVE and len(tree) == 1 and not is_leaf(tree)
    top = tree[0] if is_above else tree
    return f"{top.label()}: {' '.join(part.label() for part in top if isinstance(part, Tree))}"


def _with_lengths_alike(
    examples: Sequence[Example], classes: Sequence[str], random: np.random.Generator
) -> list[Example]:
    by_length: defaultdict[int, dict[str, list[Example]]]
    by_length = defaultdict(lambda: {label: [] for label in classes})
    for example in examples:
        by_length[len(example.words)][example.label].append(example)
    kept: list[Example] = []
    for _, by_class in sorted(by_length.items()):
        fewest = min(map(len, by_class.values()))
        for own in by_class.values():
            kept += [own[index] for index in random.permutation(len(own))[:fewest]]
    return kept
