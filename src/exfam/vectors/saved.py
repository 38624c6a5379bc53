"""The vectors of saved models of words; neither torch nor the model's class is needed."""

import os

from exfam.checks import ModelFileError
from exfam.estimator.storage import load_arrays
from exfam.vectors.word_vectors import WordVectors

__all__ = ["saved_vectors"]


def saved_vectors(path: str | os.PathLike[str]) -> WordVectors:
    """The vectors of the words in the folder of a saved model.

    Context vectors that are a linear map of the center's are worked out.
    Raises ModelFileError if the folder is damaged, newer, or of a model without words' vectors.

    >>> import tempfile
    >>> import numpy as np
    >>> from exfam.estimator.storage import save_folder
    >>> path = os.path.join(tempfile.mkdtemp(), "model")
    >>> words = {"word": np.array(["cat", "dog"], dtype=object)}
    >>> save_folder(path, tensors={"center": np.eye(2, dtype="f4")}, config={}, vocabulary=words)
    >>> saved_vectors(path)
    WordVectors(2 words, 2 columns, center alone)
    """
    stored = load_arrays(path)
    center, words = stored.tensors.get("center"), stored.vocabulary.get("word")
    if center is None or words is None:
        kind = stored.config.get("estimator")
        raise ModelFileError(
            f"`path` must hold a model of words with vectors, got one of kind {kind!r} in {path}. "
            "Fit one: exfam fit words."
        )
    context, signs = stored.tensors.get("context"), stored.tensors.get("signs")
    if "transform" in stored.tensors:
        context = center @ stored.tensors["transform"].T
    return WordVectors(tuple(words.tolist()), center, context, signs)
