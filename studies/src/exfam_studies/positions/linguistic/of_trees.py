"""Tasks made of constituents: how deep they nest, and which ones a sentence is made of."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from exfam.checks import DataError, check_whole
from exfam_studies.positions.linguistic.balancing import (
    ALL,
    Example,
    ProbingTask,
    Sizes,
    balanced_task,
    first_of_each,
)
from exfam_studies.positions.parses.brackets import Tree, depth, is_word, plain_words

OTHER = "other"
# Least depth of each class but the first.
DEPTHS = (7, 8)
# What treebanks put above a whole sentence.
_ABOVE = ("ROOT", "TOP")


def tree_depth_task(
    trees: Sequence[Tree],
    groups: Sequence[str],
    *,
    depths: Sequence[int] = DEPTHS,
    seed: int = 0,
    sizes: Sizes = ALL,
) -> ProbingTask:
    """TreeDepth: which of some ranges the depth of the tree is in.

    Deep trees are of long sentences: of each number of words, equally many sentences of each class
    are taken, so that the length does not show the class.

    `groups`: sentences of one group, such as those about one picture, stay in one part
    `depths`: where the second class and those after it begin, all labels counted (default (7, 8))
    Raises DataError where sentences are too few.
    """
    if not depths or sorted(set(depths)) != list(depths):
        raise DataError(f"`depths` must be numbers that increase, got {tuple(depths)}.")
    check_whole("seed", seed, least=0)
    names = _names(depths)
    examples = _examples(
        trees, groups, lambda tree: names[int(np.searchsorted(depths, depth(tree), side="right"))]
    )
    alike = _with_lengths_alike(examples, names, np.random.default_rng(seed))
    return balanced_task("TreeDepth", names, alike, seed=seed, sizes=sizes)


def top_constituents_task(
    trees: Sequence[Tree],
    groups: Sequence[str],
    *,
    n_frequent: int = 19,
    least: int = 100,
    seed: int = 0,
    sizes: Sizes = ALL,
) -> ProbingTask:
    """TopConst: which constituents the sentence is made of, such as "S: NP VP .", or others.

    Sentences that are no clause, as many captions are, count as well.

    `groups`: as in `tree_depth_task`
    `n_frequent`: classes besides "other", at most (default 19)
    `least`: sentences that each of them needs (default 100)
    Raises DataError where sentences are too few.
    """
    check_whole("n_frequent", n_frequent)
    check_whole("least", least)
    examples = _examples(trees, groups, _top)
    counts = Counter(example.label for example in examples)
    ordered = sorted(counts, key=lambda label: (-counts[label], label))[:n_frequent]
    frequent = [label for label in ordered if counts[label] >= least]
    named = [
        Example(words, label if label in frequent else OTHER, group)
        for words, label, group in examples
    ]
    return balanced_task("TopConst", (*frequent, OTHER), named, seed=seed, sizes=sizes)


def _names(depths: Sequence[int]) -> tuple[str, ...]:
    between = [
        f"{low}" if low + 1 == following else f"{low}-{following - 1}"
        for low, following in itertools.pairwise(depths)
    ]
    return f"<={depths[0] - 1}", *between, f">={depths[-1]}"


def _examples(
    trees: Sequence[Tree], groups: Sequence[str], label: Callable[[Tree], str]
) -> list[Example]:
    if len(trees) != len(groups):
        raise DataError(
            f"`groups` must name the group of each tree, got {len(groups)} for {len(trees)} trees."
        )
    return first_of_each(
        Example(plain_words(tree), label(tree), group)
        for tree, group in zip(trees, groups, strict=True)
    )


def _top(tree: Tree) -> str:
    """The sentence's label and those of its constituents."""
    is_above = tree.label() in _ABOVE and len(tree) == 1 and not is_word(tree)
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
            kept += [by_class[label][at] for at in chosen]
    return kept
