"""Word models in folders: each number once, words and counts beside them."""

from os import PathLike
from typing import Any

import numpy as np
import torch

from exfam.estimators.parameters import to_plain
from exfam.models.storage import save_folder

__all__ = ["save_words"]


def save_words(estimator: Any, path: str | PathLike[str], *, overwrite: bool) -> None:
    """Write parameters, histories, vocabulary and vectors of a fitted word model."""
    parameters = estimator.get_params(deep=False)
    vocabulary = estimator.vocabulary_
    arrays = estimator.matrices_.stored() | {"counts": vocabulary.counts}
    save_folder(
        path,
        tensors={name: torch.from_numpy(np.array(array)) for name, array in arrays.items()},
        config={
            "estimator": estimator.kind,
            "parameters": {name: to_plain(name, value) for name, value in parameters.items()},
            "n_tokens": vocabulary.n_tokens,
            "histories": [history.to_config() for history in estimator.histories_],
            "n_members": 0,
        },
        vocabulary={"word": np.array(vocabulary.words, dtype=object)},
        overwrite=overwrite,
    )
