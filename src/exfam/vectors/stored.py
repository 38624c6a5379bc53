"""Vectors of words that are stored: in the folder of a model, or center and context in two files.

Neither torch nor a model's class is needed.
"""

import os

import numpy as np

from exfam.checks import DataError, ModelFileError
from exfam.vectors.files import StoredVectors


def model_vectors(path: str | os.PathLike[str]) -> StoredVectors:
    """The vectors of the words in the folder of a saved model.

    Context vectors that are a linear map of the center's are worked out.
    Raises ModelFileError if the folder is damaged, newer, or of a model without words' vectors.

    >>> import tempfile
    >>> from exfam.estimator.storage import save_folder
    >>> path = os.path.join(tempfile.mkdtemp(), "model")
    >>> words = {"word": np.array(["cat", "dog"], dtype=object)}
    >>> save_folder(path, tensors={"center": np.eye(2, dtype="f4")}, config={}, vocabulary=words)
    >>> model_vectors(path).words
    ('cat', 'dog')
    """
    # Not before: training of vectors does without pyarrow.
    from exfam.estimator.storage import load_arrays

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
    return StoredVectors(tuple(words.tolist()), center, context, signs)


def with_context(
    stored: StoredVectors, context: StoredVectors, *, path: str | os.PathLike[str]
) -> StoredVectors:
    """With the center vectors of a second file as context vectors, in the order of the words.

    `path`: of the second file, for messages

    Raises DataError where it lacks a word, or if the first file has context vectors itself.

    >>> center = np.array([[1], [2]], dtype=np.float32)
    >>> first, second = StoredVectors(("a", "b"), center), StoredVectors(("b", "a"), center)
    >>> with_context(first, second, path="second.txt").context.tolist()
    [[2.0], [1.0]]
    """
    if stored.context is not None or stored.signs is not None:
        raise DataError(
            f"`context` must be None for a file that holds context vectors itself, got {path}."
        )
    index = {word: row for row, word in enumerate(context.words)}
    missing = [word for word in stored.words if word not in index]
    if missing:
        raise DataError(
            f"`context` must have a row for each of {len(stored.words)} words, got none for "
            f"{missing[0]!r} ({len(missing)} missing) in {path}."
        )
    rows = np.array([index[word] for word in stored.words], dtype=np.int64)
    return StoredVectors(stored.words, stored.center, context.center[rows])
