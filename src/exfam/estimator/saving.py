"""Fitted estimators to folders and back."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from exfam.checks import ModelFileError
from exfam.estimator.bounds import Bounded
from exfam.estimator.parameters import from_plain, to_plain
from exfam.estimator.rules import check_parameters
from exfam.estimator.seen import Seen
from exfam.estimator.storage import Stored, load_folder, model_file_errors, save_folder
from exfam.training.history import History
from exfam.training.ranks import is_main_rank

__all__ = [
    "FIELD_KINDS",
    "GROUP_KINDS",
    "KINDS",
    "SENTENCE_KINDS",
    "TABLE_KINDS",
    "WORD_KINDS",
    "load",
    "load_estimator",
    "save_estimator",
]

# What a saved model calls its estimator -> where the class lives: estimators of groups, of
# fields, of tables, of words, and of sentences.
GROUP_KINDS = {
    "efa": ("exfam.efa.efa", "EFA"),
    "latent-factor": ("exfam.efa.latent_factor", "LatentFactor"),
    "marginal": ("exfam.efa.baselines", "Marginal"),
    "shrunk-offset": ("exfam.efa.baselines", "ShrunkOffset"),
}
FIELD_KINDS = {
    "field-climatology": ("exfam.fields.baselines", "FieldClimatology"),
    "field-efa": ("exfam.fields.efa", "FieldEFA"),
    "field-gaussian-process": ("exfam.fields.baselines", "FieldGaussianProcess"),
    "field-kriging": ("exfam.fields.baselines", "FieldKriging"),
    "field-latent-factor": ("exfam.fields.latent_factor", "FieldLatentFactor"),
    "field-ridge": ("exfam.fields.baselines", "FieldRidge"),
    "field-ridge-covariance": ("exfam.fields.baselines", "FieldRidgeCovariance"),
}
TABLE_KINDS = {
    "masked-table": ("exfam.tables.table", "MaskedTable"),
    "masked-table-classifier": ("exfam.tables.classifier", "MaskedTableClassifier"),
    "masked-table-regressor": ("exfam.tables.regressor", "MaskedTableRegressor"),
}
WORD_KINDS = {
    "cbow": ("exfam.words.cbow", "CBOW"),
    "skip-gram": ("exfam.words.skipgram", "SkipGram"),
    "pmi-factorization": ("exfam.words.pmi", "PMIFactorization"),
    "lstm-language-model": ("exfam.language", "LSTMLanguageModel"),
    "masked-language-model": ("exfam.language", "MaskedLanguageModel"),
}
SENTENCE_KINDS = {
    "positional-sentence-classifier": (
        "exfam.language",
        "PositionalSentenceClassifier",
    ),
    "sentence-classifier": ("exfam.language", "SentenceClassifier"),
    "sentence-regressor": ("exfam.language", "SentenceRegressor"),
}
KINDS = GROUP_KINDS | FIELD_KINDS | TABLE_KINDS | WORD_KINDS | SENTENCE_KINDS


def save_estimator(estimator: Any, path: str | Path, *, overwrite: bool) -> None:
    """Write a fitted estimator: parameters, schema, vocabulary, all members' tensors.

    Parameters are written as they are now, and as they were at the fit, which members are built by.
    Under torchrun the main rank writes; all others, which hold the same, do nothing.
    """
    if not is_main_rank():
        return
    check_parameters(estimator)
    told, tensors = estimator._told()
    config = {
        "estimator": estimator.kind,
        "parameters": _plain(estimator.get_params(deep=False)),
        "fitted": _plain(getattr(estimator, "parameters_", estimator.get_params(deep=False))),
        **told,
        "histories": [history.to_config() for history in getattr(estimator, "histories_", [])],
    }
    tensors |= {
        f"{number}.{name}": tensor.detach().cpu().contiguous()
        for number, member in enumerate(estimator.members_)
        for name, tensor in _distinct(member).items()
    }
    if (seen := getattr(estimator, "seen_", None)) is not None:
        config["seen"] = seen.to_config()
        tensors["seen"] = torch.from_numpy(seen.hashes.view(np.int64))
    save_folder(
        path,
        tensors=tensors,
        config=config | {"n_members": len(estimator.members_)},
        vocabulary=estimator.vocabulary_,
        overwrite=overwrite,
    )


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: to_plain(name, value) for name, value in parameters.items()}


def load(path: str | Path) -> Any:
    """The fitted estimator saved in a folder, of whatever class it is.

    Raises ModelFileError if the folder is damaged, foreign or of a newer version.
    """
    return load_estimator(path)


def load_estimator(path: str | Path, *, expected: type | None = None) -> Any:
    """The estimator saved in a folder; ModelFileError if it is not an `expected` one."""
    stored = load_folder(path)
    # Every byte is as it was saved, but another version of exfam or another program may have.
    with model_file_errors(path):
        kind = stored.config.get("estimator")
        if kind not in KINDS:
            raise ModelFileError(
                f"`path` must hold an estimator of this version, got {kind!r} in {path}. Upgrade "
                "exfam."
            )
        module, name = KINDS[kind]
        found = getattr(importlib.import_module(module), name)
        if expected not in (None, found):
            raise ModelFileError(
                f"`path` must hold a saved {expected.__name__}, got {name} in {path}. "
                f"Use {name}.load or exfam.load."
            )
        with Bounded(stored.tensors):
            return _restore(found, stored)


def _restore(found: type, stored: Stored) -> Any:
    config = stored.config
    parameters, fitted = (
        {name: from_plain(value) for name, value in told.items()}
        # Older files have those alone that were set when they were written.
        for told in (config["parameters"], config.get("fitted", config["parameters"]))
    )
    estimator: Any = found(**fitted)
    estimator.parameters_ = estimator.get_params(deep=False)
    # Before the parameters are checked: it says which module has a family that is not registered.
    estimator._tell(config, stored.tensors, stored.vocabulary)
    check_parameters(estimator)
    if "seen" in config:  # older versions kept no hashes
        estimator.seen_ = Seen.from_config(config["seen"], stored.tensors["seen"].numpy())
    if config["histories"]:
        estimator.histories_ = [History.from_config(history) for history in config["histories"]]
    estimator.members_ = []
    for number in range(_n_members(config, stored.tensors)):
        member = estimator._restored_member(config)
        prefix = f"{number}."
        tensors = {
            name.removeprefix(prefix): tensor
            for name, tensor in stored.tensors.items()
            if name.startswith(prefix)
        }
        state = {name: tensors[first] for name, first in _first_names(member).items()}
        member.load_state_dict(state)
        member.eval()
        estimator.members_.append(member)
    estimator.set_params(**parameters)
    check_parameters(estimator)
    return estimator


def _n_members(config: dict[str, Any], tensors: Mapping[str, torch.Tensor]) -> int:
    n = config["n_members"]
    stored = {name.partition(".")[0] for name in tensors if name.partition(".")[0].isdigit()}
    if type(n) is not int or n < 0 or stored - {str(number) for number in range(min(n, 10_000))}:
        raise ValueError(f"n_members is {n!r}, with tensors of {len(stored)}")
    return n


def _first_names(member: torch.nn.Module) -> dict[str, str]:
    """Each tensor's name -> the first name of the same tensor: shared ones are stored once."""
    first: dict[tuple[int, tuple[int, ...]], str] = {}
    return {
        name: first.setdefault((tensor.data_ptr(), tuple(tensor.shape)), name)
        if tensor.numel()
        else name
        for name, tensor in member.state_dict().items()
    }


def _distinct(member: torch.nn.Module) -> dict[str, torch.Tensor]:
    state = member.state_dict()
    return {name: state[name] for name in dict.fromkeys(_first_names(member).values())}
