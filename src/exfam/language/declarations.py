"""Parameters that language models and models of sentences have."""

from exfam.attention import CONNECTIONS
from exfam.encodings import ENCODINGS
from exfam.estimator.declarations import TRAINING
from exfam.estimator.rules import Choice, Flag, Fraction, Positive, Rules, Whole
from exfam.language.networks.lstm import TIES
from exfam.language.networks.positional_sentences import PADDINGS
from exfam.language.text_encoders import LONG_SENTENCES, POOLINGS
from exfam.language.training import PRECISIONS
from exfam.reading.text.subwords import SUBWORDS

__all__ = ["LSTM", "MASKED", "POSITIONAL", "TUNED"]

_NETWORK: Rules = {
    **{name: TRAINING[name] for name in ("learning_rate", "batch_size", "seed", "device")},
    "dropout": Fraction(),
    "progress": Flag(),
}

POSITIONAL: Rules = {
    **_NETWORK,
    "w": Positive(),
    "s": Positive(),
    "n_positions": Whole(),
    "padding": Choice(PADDINGS),
    "max_epochs": Whole(),
}

LSTM: Rules = {
    **_NETWORK,
    "dim": Whole(),
    "n_layers": Whole(),
    "tie": Choice(TIES),
    "bptt": Whole(),
    "clip": TRAINING["clip"],
    "epochs": Whole(),
    "validation_fraction": Fraction(),
    "precision": Choice(tuple(PRECISIONS)),
}

TUNED: Rules = {
    **_NETWORK,
    **{name: TRAINING[name] for name in ("weight_decay", "warmup", "clip")},
    **{name: TRAINING[name] for name in ("max_epochs", "patience")},
    "pooling": Choice(POOLINGS),
    "long_sentences": Choice(LONG_SENTENCES),
    "precision": Choice(tuple(PRECISIONS)),
}

MASKED: Rules = {
    **{name: rule for name, rule in TUNED.items() if name != "pooling"},
    "subwords": Choice(tuple(SUBWORDS)),
    "vocabulary_size": Whole(),
    "min_count": Whole(),
    "lower": Flag(),
    "encoding": Choice(tuple(ENCODINGS)),
    "embed_dim": Whole(),
    "n_heads": Whole(),
    "n_layers": Whole(),
    "feed_forward_dim": Whole(least=0),
    "connection": Choice(tuple(CONNECTIONS)),
    "length": Whole(least=3),
    "mask_share": Fraction(),
    "validation_fraction": Fraction(),
}
