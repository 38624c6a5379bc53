"""What counting alone reaches on a text: words by themselves, and pairs of words."""

import numpy as np
from jaxtyping import Float64, Int64

Codes = Int64[np.ndarray, "tokens"]


def unigram_log_probs(
    train: Int64[np.ndarray, "train"], tokens: Codes, *, n_words: int, start: int
) -> Float64[np.ndarray, "tokens"]:
    """Log-probabilities in nats by counts of words, one added to each.

    >>> train = np.array([0, 0, 1])
    >>> np.exp(unigram_log_probs(train, np.array([0, 1]), n_words=2, start=0))
    array([0.6, 0.4])
    """
    counts = np.bincount(train, minlength=n_words) + 1.0
    return np.log(counts / counts.sum())[tokens]


def bigram_log_probs(
    train: Int64[np.ndarray, "train"], tokens: Codes, *, n_words: int, start: int
) -> Float64[np.ndarray, "tokens"]:
    """Log-probabilities in nats by interpolated Kneser-Ney of pairs; texts begin after `start`.

    Words without a count of their own share what one more pair of each would have.
    Source: Kneser & Ney (1995); Chen & Goodman (1999), section 2.7.

    >>> train = np.array([0, 1, 0, 1, 0, 2])
    >>> every = [bigram_log_probs(train, np.array([w]), n_words=3, start=0)[0] for w in range(3)]
    >>> round(float(np.exp(every).sum()), 12)
    1.0
    """
    pairs, counts = np.unique(_pairs(train, n_words, start), return_counts=True)
    once, twice = ((counts == times).sum() for times in (1, 2))
    # One more of each: where no pair occurs once, others are still to be expected.
    discount = (once + 1.0) / (once + 2.0 * twice + 3.0)
    before, word = np.divmod(pairs, n_words)
    total = np.bincount(before, weights=counts, minlength=n_words)
    spared = discount * np.bincount(before, minlength=n_words)
    lower = np.bincount(word, minlength=n_words) + 1.0
    lower /= lower.sum()
    wanted = _pairs(tokens, n_words, start)
    place = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
    own = np.where(pairs[place] == wanted, counts[place] - discount, 0.0)
    seen = total[wanted // n_words]
    # After a word that was never followed by any, its successors are those of all words.
    share = np.where(seen > 0, spared[wanted // n_words] / np.maximum(seen, 1.0), 1.0)
    return np.log(own / np.maximum(seen, 1.0) + share * lower[tokens])


def _pairs(tokens: np.ndarray, n_words: int, start: int) -> Int64[np.ndarray, "pairs"]:
    return np.concatenate([[start], tokens[:-1]])[: len(tokens)] * n_words + tokens


NGRAMS = {"unigram": unigram_log_probs, "bigram-kneser-ney": bigram_log_probs}
