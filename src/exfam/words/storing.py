"""Word models in folders: each number once, words beside them. Nothing here needs torch."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from exfam.estimator.rules import check_parameters
from exfam.estimator.storage import save_folder

__all__ = ["save_arrays", "save_words"]


def save_words(estimator: Any, path: str | PathLike[str], *, overwrite: bool) -> None:
    """Write parameters, histories, vocabulary and vectors of a model trained on text."""
    vocabulary = estimator.vocabulary_
    save_arrays(
        estimator,
        path,
        arrays=estimator.matrices_.stored() | {"counts": vocabulary.counts},
        words={"word": vocabulary.words},
        told={
            "n_tokens": vocabulary.n_tokens,
            "histories": [history.to_config() for history in estimator.histories_],
        },
        overwrite=overwrite,
    )


def save_arrays(
    estimator: Any,
    path: str | PathLike[str],
    *,
    arrays: Mapping[str, np.ndarray],
    words: Mapping[str, Sequence[str]],
    told: Mapping[str, Any],
    overwrite: bool,
) -> None:
    """Write an estimator's parameters, and what it has learned.

    `words`: lists of words by name; `told`: what else `_tell` needs, as plain JSON
    """
    check_parameters(estimator)
    parameters = estimator.get_params(deep=False)
    save_folder(
        path,
        tensors=dict(arrays),
        config={
            "estimator": estimator.kind,
            "parameters": {name: _plain(value) for name, value in parameters.items()},
            "histories": [],
            "n_members": 0,
            **told,
        },
        vocabulary={name: np.array(each, dtype=object) for name, each in words.items()},
        overwrite=overwrite,
    )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
