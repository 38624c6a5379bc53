"""Word vectors: words a second, quality, CPU seconds and peak memory, gensim in the same run.

    python benchmarks/words.py                                         # corpora/enwiki2014_100m
    python benchmarks/words.py --words 2000000 --seeds 1 --epochs 1    # for a quick look
    python benchmarks/words.py --negatives 25 --models gensim untied

Each fit has a process of its own; models take turns, so that all meet the same machine. Words are
the raw words of the corpus, those left out too; the time is that of training alone, without reading
text, and the peak memory is that of the whole process, imports included. Pairs of words without a
vector count with a cosine of 0, and questions with such a word as wrong, for all models alike.
"""

import argparse
import bz2
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

TIES = {"untied": None, "reflection": "reflection", "random": "random", "linear": "linear"}
PAIRS = ("wordsim-353", "men", "simlex-999", "rare-words")
QUESTIONS = ("google", "msr")
SENTENCE = 10_000  # words; what gensim takes at once, and where our windows end too

console = Console(highlight=False, width=150)


def corpus(options: argparse.Namespace) -> Path:
    """A plain file of the first words, a line a sentence."""
    path = Path(tempfile.gettempdir(), f"exfam-words-{options.words}-{options.corpus.stem}.txt")
    if path.exists():
        return path
    opener = bz2.open if options.corpus.suffix == ".bz2" else open
    beside = path.with_suffix(".part")
    with opener(options.corpus, "rt", encoding="utf-8") as text, beside.open("w") as out:
        for line in sentences(text, options.words):
            out.write(" ".join(line) + "\n")
    beside.rename(path)
    return path


def sentences(text: Any, limit: int) -> Iterator[list[str]]:
    words: list[str] = []
    rest, n_told = "", 0
    while n_told < limit and (piece := text.read(1 << 20)):
        *found, rest = (rest + piece).replace("\n", " ").split(" ")
        words += [word for word in found if word]
        while len(words) >= SENTENCE and n_told < limit:
            size = min(SENTENCE, limit - n_told)
            yield words[:size]
            words, n_told = words[size:], n_told + size
    if n_told < limit and (left := [*words, *filter(None, [rest])]):
        yield left[: limit - n_told]


def fit_gensim(path: Path, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    from gensim.models import Word2Vec
    from gensim.models.word2vec import LineSentence

    model = Word2Vec(
        vector_size=options.dim, window=5, negative=options.negatives, sample=1e-3, min_count=5,
        sg=1, workers=options.threads, seed=seed, epochs=options.epochs,
    )  # fmt: skip
    lines = LineSentence(str(path), max_sentence_length=SENTENCE)
    model.build_vocab(lines)
    start, cpu = time.monotonic(), time.process_time()
    model.train(lines, total_examples=model.corpus_count, epochs=options.epochs)
    result = {"seconds": time.monotonic() - start, "cpu": time.process_time() - cpu}
    result |= {"raw": model.corpus_total_words, "numbers": 2 * model.wv.vectors.size}
    return result | {"words": model.wv.index_to_key, "vectors": model.wv.vectors}


def fit_ours(path: Path, options: argparse.Namespace, seed: int, tie: str | None) -> dict[str, Any]:
    from exfam.reading.text import prepare_text
    from exfam.words import SkipGram

    common: dict[str, Any] = {
        "dim": options.dim, "negatives": options.negatives, "tie": tie, "seed": seed,
        "threads": options.threads, "progress": False,
    }  # fmt: skip
    if options.learning_rate is not None:
        common["learning_rate"] = options.learning_rate
    text = prepare_text(path)
    # Compiled, or fetched from the disk where it was compiled before.
    SkipGram(**common | {"dim": 16}, subsample=0.0, epochs=1).fit(["a b c d"] * 10)
    start, cpu = time.monotonic(), time.process_time()
    model = SkipGram(**common, epochs=options.epochs).fit(text)
    result = {"seconds": time.monotonic() - start, "cpu": time.process_time() - cpu}
    assert "torch" not in sys.modules
    result |= {"raw": text.n_tokens, "nats": [row.train_nats for row in model.history_.rows]}
    result["numbers"] = sum(array.size for array in model.matrices_.stored().values())
    return result | {"words": list(text.vocabulary.words), "vectors": model.input_vectors_}


def one_fit(options: argparse.Namespace) -> None:
    """Fit in this process; facts go to a file, vectors beside it."""
    name, seed, place = options.fit[0], int(options.fit[1]), Path(options.fit[2])
    path = corpus(options)
    if name == "gensim":
        result = fit_gensim(path, options, seed)
    else:
        result = fit_ours(path, options, seed, TIES[name])
    np.save(place / "vectors.npy", result.pop("vectors"))
    result["gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    (place / "result.json").write_text(json.dumps(result))


def measure(name: str, seed: int) -> dict[str, Any]:
    """A fit in a process of its own, and what its vectors are worth."""
    from exfam.reading.public_sets.word_pairs import word_pairs
    from exfam.reading.public_sets.word_questions import word_questions
    from exfam.vectors import WordVectors, evaluate_analogies, evaluate_similarity

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, *sys.argv[1:], "--fit", name, str(seed), folder]
        subprocess.run(command, check=True)
        result = json.loads(Path(folder, "result.json").read_text())
        vectors = WordVectors(tuple(result.pop("words")), np.load(Path(folder, "vectors.npy")))
    for each in PAIRS:
        result[each] = evaluate_similarity(vectors, word_pairs(each)).kept
    for each in QUESTIONS:
        report = evaluate_analogies(vectors, word_questions(each))
        correct = sum(row.n_correct for row in report.categories)
        result[each] = correct / sum(row.n_questions for row in report.categories)
    result["mean"] = statistics.mean(result[each] for each in PAIRS + QUESTIONS)
    return result


def show(rows: dict[str, list[dict[str, Any]]], options: argparse.Namespace) -> None:
    """Means over the seeds, and the spread of the scores."""
    some = next(iter(rows.values()))[0]
    table = Table(
        title=f"{some['raw']:,} words, d = {options.dim}, {options.negatives} negatives, "
        f"{options.epochs} epochs, {options.threads} threads, {options.seeds} seeds"
    )
    headers = ("model", "words/s", "ratio", "CPU ratio", "CPU s", "peak GB", "numbers")
    for header in (*headers, *PAIRS, *QUESTIONS, "mean"):
        table.add_column(header, justify="left" if header == "model" else "right")
    peer = rows.get("gensim")
    for name, result in rows.items():
        seconds, cpu = mean(result, "seconds"), mean(result, "cpu")
        ratios = ["", ""]
        if peer:
            ratios = [f"{mean(peer, each) / mean(result, each):.2f}" for each in ("seconds", "cpu")]
        cells = [name, f"{some['raw'] * options.epochs / seconds:,.0f}", *ratios, f"{cpu:.1f}"]
        cells += [
            f"{max(t['gigabytes'] for t in result):.2f}",
            f"{result[0]['numbers'] / 1e6:.1f}M",
        ]
        for each in (*PAIRS, *QUESTIONS, "mean"):
            values = [t[each] for t in result]
            spread = f" ±{statistics.stdev(values):.3f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.3f}{spread}")
        table.add_row(*cells)
    console.print(table)


def mean(message: list[dict[str, Any]], name: str) -> float:
    return statistics.mean(each[name] for each in message)


def parsed() -> argparse.Namespace:
    folder = Path(os.environ.get("EXFAM_DATA", "data"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=folder / "corpora/enwiki2014_100m.bz2")
    parser.add_argument("--words", type=int, default=10**9, help="only the first words")
    parser.add_argument("--negatives", type=int, default=5)
    parser.add_argument("--dim", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, help="ours, where not the default")
    models = ["gensim", *TIES]
    parser.add_argument("--models", nargs="+", choices=models, default=models[:3])
    parser.add_argument("--json", type=Path, help="where to write every fit")
    parser.add_argument("--fit", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parsed()
    if options.fit:
        one_fit(options)
        return
    if not options.corpus.is_file():
        console.print(f"{options.corpus} is not there: set EXFAM_DATA or name a --corpus.")
        return
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in options.models}
    for seed in range(1, options.seeds + 1):
        for name in options.models:
            rows[name].append(measure(name, seed))
            result = rows[name][-1]
            console.print(
                f"{name} seed {seed}: {result['seconds']:.1f} s, mean {result['mean']:.3f}"
            )
            if options.json:
                options.json.write_text(json.dumps(rows))
    show(rows, options)


if __name__ == "__main__":
    main()
