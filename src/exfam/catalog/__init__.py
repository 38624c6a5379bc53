"""Large catalogs: which of a million items, without an array of elements x items.

A fit or a score needs the log-probabilities of single items: outputs stay the factors that they are
products of, and are multiplied out, summed up and forgotten tile by tile.

    linear       outputs as factors: hidden states, item vectors, biases
    listed       the items that a row may not choose, or less likely, in memory of its context
    normalizer   exact log-probabilities, tile by tile, with gradients
    sampled      the same with the normalizer estimated from a few items, for training
    ranking      the most probable items, ranks, tile by tile
"""

from exfam.catalog.linear import LinearEta, chunks_of, item_products
from exfam.catalog.listed import ContextItems, OnePerRow, runs
from exfam.catalog.normalizer import ItemChoice, log_normalizer, log_prob_of
from exfam.catalog.ranking import BestItems, all_log_probs, best_items, item_rank
from exfam.catalog.sampled import Drawn, ItemSampler, sampled_log_prob

__all__ = [
    "LARGE_CATALOG",
    "BestItems",
    "ContextItems",
    "Drawn",
    "ItemChoice",
    "ItemSampler",
    "LinearEta",
    "OnePerRow",
    "all_log_probs",
    "best_items",
    "chunks_of",
    "item_products",
    "item_rank",
    "log_normalizer",
    "log_prob_of",
    "runs",
    "sampled_log_prob",
]

# Items from which on outputs are kept as factors. As fast there as one product and one softmax, and
# from twice as many on at least twice as fast (one thread, 300 to 4,000 targets of 32 dimensions).
LARGE_CATALOG = 500
