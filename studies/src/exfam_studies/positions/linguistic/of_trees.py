"""Tasks made of constituents: how deep they nest, and which ones a sentence is made of."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from exfam_studies.positions.linguistic.balancing import (
    Example,
    ProbingTask,
    balanced_task,
    first_of_each,
)
from exfam_studies.positions.trees import Tree, depth, is_leaf, plain_words

OTHER = "other"
# What treebanks put above a whole sentence.
_ABOVE = ("ROOT", "TOP")


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
    are taken, so that the length does not show the class.

    `groups`: sentences of one group, such as those about one picture, stay in one part
    `depths`: where the second class and those after it begin, all labels counted
    """
    between = [
        f"{low}" if low + 1 == following else f"{low}-{following - 1}"
        for low, following in itertools.pairwise(depths)
    ]
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

    Sentences that are no clause, as many captions are, count as well.

    `n_frequent`: classes besides "other", at most; `least`: sentences that each of them needs
    """
    examples = _examples(trees, groups, _top)
    counts = Counter(example.label for example in examples)
    ordered = sorted(counts, key=lambda label: (-counts[label], label))[:n_frequent]
    frequent = [label for label in ordered if counts[label] >= least]
    named = [
        Example(words, label if label in frequent else OTHER, group)
        for words, label, group in examples
    ]
    return balanced_task("TopConst", (*frequent, OTHER), named, **drawing)


def _examples(
    trees: Sequence[Tree], groups: Sequence[str], label: Callable[[Tree], str]
) -> list[Example]:
    return first_of_each(
        Example(plain_words(tree), label(tree), group)
        for tree, group in zip(trees, groups, strict=True)
    )


def _top(tree: Tree) -> str:
    """The sentence's label and those of its constituents."""
    is_above = tree.label() in _ABOVE and len(tree) == 1 and not is_leaf(tree)
    top = tree[0] if is_above else tree
    return f"{top.label()}: {' '.join(part.label() for part in top if isinstance(part, Tree))}"


def _with_lengths_alike(
    examples: Sequence[Example], classes: Sequence[str], random: np.random.Generator
) -> list[Example]:
    by_length: defaultdict[int, defaultdict[str, list[Example]]]
    by_length = defaultdict(lambda: defaultdict(list))
    for example in examples:
        by_length[len(example.words)][example.label].append(example)
    kept: list[Example] = []
    for _, by_class in sorted(by_length.items()):
        fewest = min(len(by_class[label]) for label in classes)
        for label in classes:
            chosen = random.permutation(len(by_class[label]))[:fewest]
            kept += [by_class[label][index] for index in chosen]
    return kept
