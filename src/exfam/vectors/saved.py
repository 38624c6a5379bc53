"""Word vectors of saved models."""

from exfam.checks import ModelFileError
from exfam.vectors.files import StoredVectors
from exfam.vectors.files.rows import FilePath


def model_vectors(path: FilePath) -> StoredVectors:
    """The words' vectors in the folder of a saved model; those of linear ties are worked out."""
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
