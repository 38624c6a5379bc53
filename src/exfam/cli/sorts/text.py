"""Models of words of a text, and of sentences."""

from typing import Any

import numpy as np

from exfam.cli.errors import reworded
from exfam.cli.options import READING
from exfam.cli.sorts.base import Answer, PlannedFit, Sort, sizes

# Where the log-likelihood is of yes and no, there is no perplexity.
_SAMPLED = ("skip-gram", "cbow")
_OF_ROWS = "It is of rows. Take a file of text."
_WORDS = dict.fromkeys(("`source`", "`X`", "`path`"), "`CORPUS`") | {"`folder`": "`checkpoint`"}
_COMMANDS = ("predict", "explain", "recommend")


def _read(model: Any, chosen: Any, *, file: str) -> tuple[str, str]:
    return file, ""


def _plan(estimator: Any, chosen: Any) -> PlannedFit:
    keep = "folder" if chosen.model == "pmi" else "checkpoint"
    return PlannedFit((chosen.corpus,), {keep: chosen.checkpoint}, None, errors=reworded(_WORDS))


def _summary(model: Any) -> dict[str, Any]:
    """What was learned, and the nats of the last epoch, of a factorization none."""
    vectors, histories = model.vectors_, getattr(model, "histories_", [])
    return {
        "model": [{"pmi-factorization": "pmi"}.get(model.kind, model.kind)],
        "words": [len(vectors)],
        "dim": [vectors.dim],
        "tied": ["yes" if vectors.tied else "no"],
        "nats": [-histories[-1].rows[-1].train_nats if histories else float("nan")],
    }


def _score(model: Any, file: str, chosen: Any) -> Answer:
    """Mean nats of the file's text; see the models' `score`."""
    nats = float(model.score(file))
    is_exact = model.kind not in _SAMPLED or getattr(model, "likelihood", None) == "softmax"
    perplexity = float(np.exp(-nats)) if is_exact and nats > -700 else np.nan
    return {"part": ["words"], "nats": [nats], "perplexity": np.array([perplexity])}, []


def _facts(model: Any) -> dict[str, Any]:
    """What a model of words holds; `numbers` are of its vectors, of tied ones once."""
    if not hasattr(model, "vectors_"):
        return {"numbers": sizes(model)["numbers"]}
    vectors = model.vectors_
    twice = 1 if vectors.context is None else 2
    facts = {"words": len(vectors), "dim": vectors.dim, "tied": vectors.tied}
    return facts | {"numbers": twice * vectors.center.size}


WORDS = Sort(
    name="words",
    read=_read,
    facts=_facts,
    answers={"score": _score},
    instead=dict.fromkeys(
        _COMMANDS, "Use `exfam score`, `exfam neighbors` or `exfam evaluate words`."
    ),
    refused=dict.fromkeys((*(option.name for option in READING), "unknown", "per_row"), _OF_ROWS)
    | {"train": "Models of words have no baselines."},
    plan=_plan,
    summary=_summary,
)
SENTENCES = Sort(
    name="sentences",
    read=_read,
    facts=_facts,
    answers={},
    instead=dict.fromkeys(
        ("score", "report", *_COMMANDS), "Use its `predict` in Python: exfam.load(MODEL)."
    ),
)
