"""What every estimator learns and predicts on small data, as hashes, and its saved folder.

    python tests/same_numbers.py keep FOLDER       # fit everything, keep hashes and folders
    python tests/same_numbers.py compare FOLDER    # fit everything again, name what differs

A change that must not change numbers is made between the first command and the second, on one
machine: other processors round otherwise.
"""

import argparse
import hashlib
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path[:0] = [str(Path(__file__).parent)]

import numpy as np
import torch

import every_estimator
from exfam import load
from exfam.checks import ExfamError
from exfam.families import Bernoulli, Gaussian, Ordinal, PerItem, Poisson

FRAME = every_estimator.RATINGS.assign(
    seen=(np.arange(len(every_estimator.RATINGS)) % 2).astype(float)
)
ORDERED = {"order": "day"}
CAUSAL = {"direction": "causal", **ORDERED}
# More settings of an estimator than its plain case: the parts that change its path.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "efa": {
        "causal": CAUSAL,
        "base": {"value": None, "base": "auto"},
        "base-causal": {"value": None, "base": "auto", **CAUSAL},
        "ensemble": {"ensemble": 2},
        "reflection": {"tie": "reflection"},
        "two-stream": {**CAUSAL, "conditional": "two_stream", "n_layers": 2},
        "copies": {"conditional": "copies", "dropout": 0.3, "n_layers": 2},
        "relative": {**ORDERED, "encoding": "relative"},
        "rotary": {**ORDERED, "encoding": "rotary"},
        "learned": {**ORDERED, "encoding": "learned"},
        "alibi": {**CAUSAL, "encoding": "alibi"},
        "distance": {"position": "gap", "encoding": "distance"},
        "items-see-values": {"item_sees_values": True, "feed_forward_dim": 4},
        "concatenated": {"join": "concatenate", "value_embedding": "raw"},
        "own-dispersion": {"dispersion": "item", "group_offset": True},
        "attributes": {"attributes": ["genre", "gap"], "known": "gap", "group_attributes": ["age"]},
        "penalty": {"support": "penalty"},
        "items": {"value": None},
        "sampled": {"value": None, "n_sampled_items": 3, "support": "none"},
        "values": {"parts": "values"},
        "no-items": {"item": None},
        "per-item": {"family": PerItem({"a": Poisson(shift=1)}, default=Gaussian())},
        "ordinal": {"family": Ordinal(5, start=1)},
        "two-columns": {
            "value": ["stars", "seen"],
            "family": {"stars": "gaussian", "seen": Bernoulli()},
        },
        "linear": {"attention": "linear", "null_token": False, "connection": "none"},
        "tokens": {"batch_tokens": 12},
    },
    "latent-factor": {
        "causal": CAUSAL,
        "raw": {"base": "none", "parts": "values"},
        "levels": {"dim": 0, "parts": "values"},
        "pooled": {"base": "none", "intercept": False, "mask_vector": True, "pooling": "sum"},
        "ordinal": {"parts": "values", "family": Ordinal(5, start=1)},
    },
    "marginal": {"causal": CAUSAL, "by-item": {"by_item": True, "support": "none"}},
    "field-efa": {
        "lag": {"lags": 1},
        "neighbors": {"n_neighbors": 3, "hide": 0.2, "calibrate": False},
    },
    "field-gaussian-process": {"lag": {"lags": 1}},
    "field-ridge": {"lag": {"lags": 1}},
    "masked-table": {"ensemble": {"ensemble": 2}, "linear": {"network": "linear"}},
    "masked-table-classifier": {"ensemble": {"ensemble": 2}},
    "masked-table-regressor": {"gaussian": {"family": "gaussian"}},
    "cbow": {"softmax": {"likelihood": "softmax", "window": None}},
    "skip-gram": {"reflected": {"tie": "reflection"}},
}
LATER_FIELDS = ("tied", "contributions")
# Called without more than the data; what an estimator lacks, or refuses, is kept as that.
METHODS = (
    "log_prob", "log_prob_parts", "score", "score_parts", "predict", "predict_variance",
    "predict_proba", "predict_dist", "recommend", "transform", "explain", "impute", "sample",
    "forecast", "next_site", "seen_in_fit", "experts", "conditional", "disagreement",
)  # fmt: skip


def cases(only: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """Name and case of every fit, or of those of some kinds."""
    for kind in only or every_estimator.KINDS:
        plain = every_estimator.case_of(kind)
        if kind == "efa":
            plain = replace(plain, parameters={**plain.parameters, "base": "none"})
        yield kind, plain
        for name, changes in VARIANTS.get(kind, {}).items():
            given = (FRAME,) if kind == "efa" else plain.given
            parameters = {**plain.parameters, **changes}
            yield f"{kind}_{name}", every_estimator.Case(kind, parameters, given, plain.also)


def digest(value: Any) -> str:
    """Of any result: its numbers and words in order, not the names of its fields."""
    whole = hashlib.sha256()
    for piece in _pieces(value):
        whole.update(piece)
    return whole.hexdigest()[:16]


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if hasattr(value, "to_numpy") and hasattr(value, "columns"):
        value = {str(name): value[name].to_numpy() for name in value.columns}
    if isinstance(value, np.ndarray) and value.dtype.kind in "OUSMm":
        value = [str(item) for item in value.ravel()]
    if is_dataclass(value):
        held = [(field.name, getattr(value, field.name)) for field in fields(value)]
        # Hashes kept from before these fields were there stay comparable.
        value = [item for name, item in held if name not in LATER_FIELDS or item is not None]
    if isinstance(value, np.ndarray):
        yield str((value.dtype.kind, value.shape)).encode() + value.tobytes()
    elif isinstance(value, dict):
        for name, item in value.items():
            yield str(name).encode()
            yield from _pieces(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _pieces(item)
    elif isinstance(value, torch.nn.Module):
        yield b"module"
    elif isinstance(value, int | float | str | bool | np.generic | None):
        yield repr(value.item() if isinstance(value, np.generic) else value).encode()
    else:
        yield type(value).__name__.encode()


def results(estimator: Any, given: tuple[Any, ...]) -> dict[str, str]:
    """Hashes of the weights and of what each method answers."""
    hashes = {"weights": digest([*every_estimator.tensors_of(estimator).values()])}
    for name in METHODS:
        method = getattr(estimator, name, None)
        if callable(method):
            both = name in ("score", "log_prob") and len(given) > 1
            try:
                hashes[name] = digest(method(*(given if both else given[:1])))
            except (ExfamError, TypeError) as error:
                hashes[name] = type(error).__name__
    return hashes


def keep(folder: Path) -> None:
    """Fit everything; write hashes and saved folders."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {}
    for name, case in cases():
        estimator = case.fit()
        estimator.save(folder / name, overwrite=True)
        kept[name] = results(estimator, case.given)
        print(name, len(kept[name]), flush=True)
    (folder / "hashes.json").write_text(json.dumps(kept, indent=1) + "\n")


def compare(folder: Path, only: Sequence[str] = ()) -> int:
    """Fit everything again and load what was kept; name every difference, return their number."""
    kept = json.loads((folder / "hashes.json").read_text())
    n_wrong = 0
    for name, case in cases(only):
        old = kept.pop(name, None)
        if old is None:  # newer than what was kept
            continue
        old.pop("saved", None)
        for how, model in (("fitted", case.fit()), ("loaded", load(folder / name))):
            new = results(model, case.given)
            # What one lacks the other may have been given since: only what both have counts.
            differ = [method for method in old if old[method] != new.get(method, old[method])]
            gone = [method for method in old if method not in new]
            if differ or gone:
                n_wrong += 1
                print(f"{name} ({how}): differs in {differ}, lacks {gone}", flush=True)
    for name in () if only else kept:
        n_wrong += 1
        print(f"{name}: no longer fitted")
    print(f"{n_wrong} differences")
    return n_wrong


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["keep", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=[], help="kinds of estimators")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.command == "compare":
        return int(compare(options.folder, options.only) > 0)
    keep(options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
