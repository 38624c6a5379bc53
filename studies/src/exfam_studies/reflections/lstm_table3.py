"""LSTM language models with outputs tied to inputs, plainly and by a reflection: Table 3.

Tying by a reflection is plain tying in other coordinates (`plain_from_reflected`), and initial
weights are symmetric about 0: the two are equal in distribution before, during and after training.
"wikitext-2" is 2 epochs; "wikitext-2-full" is the paper's 40, and "-650" its larger networks. These
are many hours of a processor, which `--only` must name.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64

from exfam.checks import ExfamError
from exfam.embeddings import Reflected
from exfam.language import LSTMLanguageModel
from exfam.language.networks.lstm_network import LSTMNetwork, token_log_probs
from exfam.training.precision import multiplies_bfloat16
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import VALIDATION, Key, Measured, Store, kept_seeds, metric_row
from exfam_studies.common.rows import Row
from exfam_studies.common.token_streams import CORPORA, Texts, read_texts

Codes = Int64[np.ndarray, "_"]

EPOCHS = 40
# Tasks -> corpus, dimensions and epochs.
_TASKS = {
    "ptb": ("ptb", 200, EPOCHS),
    "wikitext-2": ("wikitext-2", 200, 2),
    "wikitext-2-full": ("wikitext-2", 200, EPOCHS),
    "ptb-650": ("ptb", 650, EPOCHS),
    "wikitext-2-650": ("wikitext-2", 650, EPOCHS),
}
TASKS = tuple(_TASKS)
_LONG = ("wikitext-2-full", "ptb-650", "wikitext-2-650")
# Dimensions -> dropout.
_DROPOUT = {200: 0.2, 650: 0.5}
# Model -> how outputs are tied.
MODELS = {"lstm-tied": "tied", "lstm-reflection": "reflection"}
# Corpus and dimensions -> perplexities.
PAPER = {
    ("ptb", 200): {"lstm-tied": 86.1, "lstm-reflection": 86.5},
    ("wikitext-2", 200): {"lstm-tied": 99.6, "lstm-reflection": 100.4},
    ("ptb", 650): {"lstm-tied": 76.2, "lstm-reflection": 76.4},
    ("wikitext-2", 650): {"lstm-tied": 86.6, "lstm-reflection": 86.7},
}
NOTES = {"lstm-reflection": "equal in distribution to lstm-tied: their gap is seed noise"}
DIFFERENCE = "max-difference-to-tied"
# Test tokens on which a reflected model is compared with the plainly tied one that it equals.
_COMPARED = 2000
_FAST: dict[str, Any] = {"dim": 8, "epochs": 2, "batch_size": 4, "bptt": 10}


def plain_from_reflected(network: LSTMNetwork) -> LSTMNetwork:
    """The plainly tied network of the same probabilities as one tied by a reflection.

    The top layer's state is h = o * tanh(c), c = f * c + i * g, and tanh is odd: with the signs of
    the rows of g flipped, c and h flip, and with the columns that read h flipped, no gate notices.
    Raises ExfamError if the outputs of `network` are not reflected inputs.
    """
    if not isinstance(network.output, Reflected) or network.output.items is not network.words:
        raise ExfamError(
            "`network` must have outputs that are its inputs, reflected, got "
            f"{type(network.output).__name__}. Build it with tie='reflection'."
        )
    other, signs = copy.deepcopy(network), network.output.signs
    other.output = other.words
    lstm, top = other.lstm, other.lstm.num_layers - 1
    # Of the four blocks of rows, those of the gates i, f, g, o, that of g.
    candidate = slice(2 * lstm.hidden_size, 3 * lstm.hidden_size)
    with torch.no_grad():
        lstm.get_parameter(f"weight_hh_l{top}").mul_(signs)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            rows = lstm.get_parameter(f"{name}_l{top}")[candidate]
            rows.mul_(signs if rows.ndim == 1 else signs[:, None])
    return other


def run(options: Options) -> list[Row]:
    """Fit and score both models of the wanted tasks, and what counting alone reaches."""
    jobs = []
    for task, (name, *_) in _TASKS.items():
        if not options.wants(task, is_long=task in _LONG):
            continue
        n_lines = 40 if options.fast else None
        read = cache(partial(read_texts, CORPORA[name], n_lines=n_lines))
        jobs.append(Job(f"{task} counts", partial(_count_rows, task, read)))
        jobs += [Job(f"{task} {m}", partial(_model_rows, task, m, read, options)) for m in MODELS]
    return gather(jobs)


def ngram_log_probs(
    train: Codes, tokens: Codes, n_words: int, start: int
) -> dict[str, Float[np.ndarray, "_"]]:
    """Log-probabilities in nats by counts of words, one added to each, and of pairs of words.

    Pairs by interpolated Kneser-Ney; texts begin after `start`.
    Source: Kneser & Ney (1995); Chen & Goodman (1999), section 2.7.
    """

    def pairs_of(codes: Codes) -> Codes:
        return np.concatenate([[start], codes[:-1]])[: len(codes)] * n_words + codes

    words = np.bincount(train, minlength=n_words) + 1.0
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
    kneser_ney = own / np.maximum(seen, 1.0) + share * lower[tokens]
    return {"unigram": np.log(words / words.sum())[tokens], "bigram-kneser-ney": np.log(kneser_ney)}


def _count_rows(task: str, read: Callable[[], Texts]) -> list[Row]:
    texts = read()

    def perplexities(part: str) -> dict[str, float]:
        codes, sizes = texts.codes, (len(texts.lexicon), texts.lexicon.line_end)
        log_probs = ngram_log_probs(codes["train"], codes[part], *sizes)
        return {model: math.exp(-own.mean()) for model, own in log_probs.items()}

    test, validation = perplexities("test"), perplexities("validation")
    row = Row(task=task, model="", metric="perplexity")
    return [replace(row, model=m, value=test[m], validation=validation[m]) for m in test]


def _model_rows(task: str, model: str, read: Callable[[], Texts], options: Options) -> list[Row]:
    text, dim, epochs = _TASKS[task]
    precision = "bfloat16" if multiplies_bfloat16() else "float32"
    usual = {"tie": MODELS[model], "dim": dim, "epochs": epochs, "precision": precision}
    usual["dropout"] = _DROPOUT[dim]
    fast = _FAST if options.fast else {}
    settings: dict[str, Any] = {name: fast.get(name, value) for name, value in usual.items()}
    names = (text + "-fast" * options.fast, f"{dim}-{settings['epochs']}-epochs-{precision}", model)
    fit = partial(_fit, names, read, settings | fast, options)
    kept = kept_seeds(Store(options.folder), names, options.n_seeds(1), fit)
    seeds = "seed 0" if len(kept) == 1 else f"seeds 0 to {len(kept) - 1}"
    changed = {"estimator": "LSTMLanguageModel", **settings, **fast}
    row = Row(task=task, model=model, settings=settings, metric="perplexity", parameters=changed)
    paper = PAPER[text, dim][model] if epochs == EPOCHS and not fast else None
    note = "; ".join(filter(None, [seeds, NOTES.get(model)]))
    rows = [replace(metric_row(row, kept), n_configurations=1, paper=paper, note=note)]
    if known := [value for fit in kept if (value := fit.figures.get(DIFFERENCE)) is not None]:
        note = "nats, to the plainly tied network with mapped weights"
        apart = replace(row, metric=DIFFERENCE, n_seeds=len(known), note=note)
        rows.append(replace(apart, value=max(known)))
    return rows


def _fit(
    names: tuple[str, ...], read: Callable[[], Texts], parameters: Any, options: Options, seed: int
) -> Measured:
    texts, folder = read(), options.folder
    estimator = LSTMLanguageModel(**parameters, seed=seed)
    checkpoint = None if folder is None else folder / Key(names, seed).path.with_suffix("")
    estimator.fit(texts.given["train"], validation=texts.given["validation"], checkpoint=checkpoint)
    history = estimator.history_
    if history.interrupted or history.best is None:
        raise KeyboardInterrupt("a fit was cut short")
    figures = {
        "perplexity": estimator.perplexity(texts.given["test"]),
        f"{VALIDATION}perplexity": estimator.perplexity(texts.given["validation"]),
    }
    if estimator.tie == "reflection":
        tokens, start = texts.codes["test"][:_COMPARED], texts.lexicon.line_end
        models = estimator.model_, plain_from_reflected(estimator.model_).eval()
        reflected, plain = (token_log_probs(model, tokens, start=start) for model in models)
        figures[DIFFERENCE] = float(np.abs(reflected - plain).max())
    details = {"steps": history.steps, "best_epoch": history.best.epoch}
    return Measured(figures, details=details, cpu_seconds=history.cpu_seconds)
