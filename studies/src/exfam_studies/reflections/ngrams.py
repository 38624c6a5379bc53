"""What counting alone reaches on a text: words by themselves, and pairs of words."""

import numpy as np
from jaxtyping import Float64, Int64

Codes = Int64[np.ndarray, "_"]


def unigram_log_probs(
    train: Codes, tokens: Codes, *, n_words: int, start: int
) -> Float64[np.ndarray, "tokens"]:
    """Log-probabilities in nats by counts of words, one added to each."""
    counts = np.bincount(train, minlength=n_words) + 1.0
    return np.log(counts / counts.sum())[tokens]


def bigram_log_probs(
    train: Codes, tokens: Codes, *, n_words: int, start: int
) -> Float64[np.ndarray, "tokens"]:
    """Log-probabilities in nats by interpolated Kneser-Ney of pairs; texts begin after `start`.

    Words without a count of their own share what one more pair of each would have.
    Source: Kneser & Ney (1995); Chen & Goodman (1999), section 2.7.
    """

    def pairs_of(codes: Codes) -> Codes:
        return np.concatenate([[start], codes[:-1]])[: len(codes)] * n_words + codes

    pairs, counts = np.unique(pairs_of(train), return_counts=True)
    once, twice = ((counts == times).sum() for times in (1, 2))
    # One more of each: where no pair occurs once, others are still to be expected.
    discount = (once + 1.0) / (once + 2.0 * twice + 3.0)
    before, word = np.divmod(pairs, n_words)
    total = np.bincount(before, weights=counts, minlength=n_words)
    spared = discount * np.bincount(before, minlength=n_words)
    lower = np.bincount(word, minlength=n_words) + 1.0
    lower /= lower.sum()
    wanted = pairs_of(tokens)
    index = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
    own = np.where(pairs[index] == wanted, counts[index] - discount, 0.0)
    seen = total[wanted // n_words]
    # After a word that was never followed by any, its successors are those of all words.
    share = np.where(seen > 0, spared[wanted // n_words] / np.maximum(seen, 1.0), 1.0)
    return np.log(own / np.maximum(seen, 1.0) + share * lower[tokens])


NGRAMS = {"unigram": unigram_log_probs, "bigram-kneser-ney": bigram_log_probs}
