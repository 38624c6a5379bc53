"""Whether two neighboring words have changed places.

Source: Conneau et al. (2018), section 2, "Bigram shift".
"""

from collections.abc import Sequence

import numpy as np

from exfam.checks import check_whole
from exfam_studies.positions.linguistic.splitting import ALL, Rule, Sizes, balanced_task, distinct
from exfam_studies.positions.linguistic.tasks import Example, ProbingTask

__all__ = ["bigram_shift_task"]

_RULE = Rule("BShift", "1", ("original", "shifted"))


def bigram_shift_task(
    sentences: Sequence[Sequence[str]], *, seed: int = 0, sizes: Sizes = ALL
) -> ProbingTask:
    """BShift: whether two neighboring words have changed places, as in half of the sentences.

    Each sentence is there once. The words are unlike, made of letters, and not the first one, whose
    capital would tell; sentences without such a pair are left out.
    Raises DataError where sentences are too few.
    """
    check_whole("seed", seed, least=0)
    random = np.random.default_rng(seed)
    found = [(words, _pairs(words)) for words in distinct(sentences)]
    found = [(words, pairs) for words, pairs in found if pairs]
    shifted = random.permutation(len(found)) < len(found) // 2
    examples = []
    for (words, pairs), is_shifted in zip(found, shifted, strict=True):
        at = pairs[random.integers(len(pairs))]
        changed = (*words[:at], words[at + 1], words[at], *words[at + 2 :])
        label = _RULE.classes[int(is_shifted)]
        examples.append(Example(changed if is_shifted else words, label, group=" ".join(words)))
    return balanced_task(_RULE, examples, seed=seed, sizes=sizes)


def _pairs(words: Sequence[str]) -> list[int]:
    """Places of the first of two words that can change places."""
    return [
        at
        for at in range(1, len(words) - 1)
        if words[at].isalpha() and words[at + 1].isalpha()
        if words[at].lower() != words[at + 1].lower()
    ]
