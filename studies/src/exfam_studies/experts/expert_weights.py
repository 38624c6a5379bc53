"""Weights of word experts, compared in exact nats: even, by MASK, or by each candidate.

One network whose weights differ: "cbow" weighs the words around alike, "linear-attention" by MASK,
"awe" for each candidate for the center by itself; with "offsets", distances count as well.
"toy-corpus" has known probabilities: "truth" is the least possible. "ptb" is Penn Treebank in its
300 most frequent words, all others being "<unk>". Validation chooses the epoch, and one of six ways
to train all kinds of weights of Penn Treebank.
Source: "Bidirectional attention as a mixture of experts", footnote 1 and the end of section 4.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch

from exfam.groups import Groups
from exfam.language.tokens import lines_of
from exfam.likelihoods.two_part import Likelihood, TwoPartModel
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import fit
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured, Store, kept_seeds, metric_row
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.common.splits import Splits, items_of
from exfam_studies.common.token_streams import CORPORA, corpus_path
from exfam_studies.experts.context_words import ContextWords
from exfam_studies.experts.factorized_attention import mean_nats
from exfam_studies.experts.toy_sentences import toy_conditionals, toy_population, toy_sentences

TASKS = ("toy-corpus", "ptb")
NAMES = {"even": "cbow", "mask": "linear-attention", "center": "awe"}
SEEDS = 3
FAST_SENTENCES, FAST_EPOCHS = 60, 2
# Sizes of the networks and of their training, and how many were tried.
_TASKS: Mapping[str, dict[str, Any]] = {
    "toy-corpus": {
        "dim": 30, "key_dim": 16, "window": 4, "batch_size": 128, "max_epochs": 10,
        "learning_rate": 1e-2, "n_sentences": (10_000, 2_000, 10_000), "n_configurations": 1,
    },
    "ptb": {
        "dim": 48, "key_dim": 16, "window": 4, "batch_size": 64, "max_epochs": 8,
        "learning_rate": 3e-2, "n_sentences": (4_000, 1_000, 3_761), "n_configurations": 6,
    },
}  # fmt: skip
N_WORDS = 300
# Seeds of the toy corpus begin there: no sentence of training is one of validation or test.
_FIRST_SEEDS = (0, 1_000, 2_000)


def run(options: Options) -> list[Row]:
    """Fit each kind of weights to each corpus."""
    jobs = []
    for task in filter(options.wants, TASKS):
        jobs.append(Job(f"{task} unigram", partial(_cheap_rows, task, options)))
        for weights, offsets in itertools.product(NAMES, (False, True)):
            rows = partial(_rows, task, weights, offsets, options)
            jobs.append(Job(f"{task} {NAMES[weights]}", rows))
    return gather(jobs)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """All sizes of the network and of its training."""
    if row.model in ("unigram", "truth"):
        return {}
    return {"network": "context words", **_TASKS[row.task]}


def _sizes(task: str, options: Options) -> dict[str, Any]:
    if not options.fast:
        return _TASKS[task]
    return {**_TASKS[task], "max_epochs": FAST_EPOCHS, "n_sentences": (FAST_SENTENCES,) * 3}


def _rows(task: str, weights: str, offsets: bool, options: Options) -> list[Row]:
    sizes = _sizes(task, options)
    trained = f"{sizes['max_epochs']}-epochs-rate-{sizes['learning_rate']:g}"
    name = f"{weights}{'-offsets' * offsets}-{trained}"
    names = (task, f"{sizes['n_sentences'][0]}-sentences", name)
    measure = partial(_measure, task, weights, offsets, options)
    kept = kept_seeds(Store(options.folder), names, options.n_seeds(SEEDS), measure)
    shown, tried = {"dim": sizes["dim"], "offsets": offsets}, sizes["n_configurations"]
    row = Row(
        task=task, model=NAMES[weights], settings=shown, metric="nats", n_configurations=tried
    )
    return [metric_row(row, kept)]


def _measure(task: str, weights: str, offsets: bool, options: Options, seed: int) -> Measured:
    sizes = _sizes(task, options)
    parts = _parts(task, seed, sizes["n_sentences"])
    shape = {name: sizes[name] for name in ("dim", "key_dim", "window")}
    network = ContextWords(
        parts.train.n_items, weights=weights, offsets=offsets,
        generator=torch.Generator().manual_seed(seed), **shape,
    )  # fmt: skip
    model = TwoPartModel(direction="bidirectional", item_part=network)
    trained = {name: sizes[name] for name in ("learning_rate", "batch_size", "max_epochs")}
    settings, loss = TrainingSettings(**trained, seed=seed), Likelihood("bidirectional")
    history = fit(
        model, objective=loss, train=parts.train, validation=parts.validation, settings=settings,
        progress=False,
    )  # fmt: skip
    figures = {
        name: mean_nats(model, part, objective=loss, at_once=64)
        for name, part in (("nats", parts.test), ("validation-nats", parts.validation))
    }
    return Measured(figures, details={"steps": history.steps})


def _cheap_rows(task: str, options: Options) -> list[Row]:
    seeds = range(options.n_seeds(SEEDS) if task == "toy-corpus" else 1)
    n_sentences = _sizes(task, options)["n_sentences"]
    parts = [_parts(task, seed, n_sentences) for seed in seeds]
    row = Row(task=task, model="unigram", metric="nats")
    values = [_unigram(own.train, own.test) for own in parts]
    validations = [_unigram(own.train, own.validation) for own in parts]
    rows = [row_over_seeds(row, values=values, validations=validations)]
    if task == "toy-corpus":
        drawn = [toy_sentences(n_sentences[2], seed=_FIRST_SEEDS[2] + seed) for seed in seeds]
        truths = [-float(toy_conditionals(sentences).mean()) for sentences in drawn]
        rows.append(row_over_seeds(replace(row, model="truth"), values=truths))
    return rows


def _unigram(train: Groups, groups: Groups) -> float:
    """Mean loss of frequencies, each word counted once more than it is read."""
    counts = np.bincount(items_of(train), minlength=train.n_items) + 1.0
    return -float(np.log(counts / counts.sum())[items_of(groups)].mean())


@cache
def _parts(task: str, seed: int, n_sentences: tuple[int, int, int]) -> Splits:
    if task == "toy-corpus":
        drawn = [
            toy_sentences(n, seed=first + seed)
            for n, first in zip(n_sentences, _FIRST_SEEDS, strict=True)
        ]
        vocabulary = sorted({word for sentence in toy_population()[0] for word in sentence})
        return Splits(*(as_sentences(own, vocabulary) for own in drawn))
    read: list[list[list[str]]] = []
    for part, n in zip(("train", "validation", "test"), n_sentences, strict=True):
        lines = lines_of(corpus_path(CORPORA["ptb"], part))
        read.append([words for _, words in itertools.islice(lines, n) if words])
    words, counts = np.unique([word for line in read[0] for word in line], return_counts=True)
    often = words[np.argsort(-counts, kind="stable")].tolist()
    vocabulary = ["<unk>", *[word for word in often if word != "<unk>"][: N_WORDS - 1]]
    return Splits(*(as_sentences(own, vocabulary, other=0) for own in read))


def as_sentences(
    sentences: Sequence[Sequence[str]], vocabulary: Sequence[str], *, other: int = -1
) -> Groups:
    """Sentences as groups of words; `other` is the code of words out of the vocabulary."""
    number = {word: code for code, word in enumerate(vocabulary)}
    lengths = np.array([len(sentence) for sentence in sentences], np.int64)
    stop = np.cumsum(lengths)
    item = np.array([number.get(word, other) for own in sentences for word in own], np.int32)
    return Groups(stop - lengths, stop, item, vocabulary={"item": np.array(vocabulary)})
