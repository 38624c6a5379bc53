"""Models of words in folders and back, and their vectors without the models."""

import subprocess
import sys

import numpy as np
import pytest

import exfam
from exfam import EFA, ExfamError, ModelFileError
from exfam.estimator.storage import load_arrays, load_folder, save_folder
from exfam.vectors import WordVectors
from exfam.vectors.word_vectors import model_vectors
from exfam.words import PMIFactorization
from exfam.words.matrices import initial_matrices

TEXT = ["a b a c", "c b a", "b c a b", "d c d", "d a d b"] * 3


@pytest.fixture(scope="module", params=["eigen", "svd"])
def fitted(request):
    return PMIFactorization(dim=2, min_count=2, method=request.param).fit(TEXT)


def assert_same_vectors(found, vectors):
    assert found.words == vectors.words and (found.signs is None) == (vectors.signs is None)
    for of in ("center", "context"):
        np.testing.assert_array_equal(found.matrix(of), vectors.matrix(of))
        assert np.std(found.matrix(of)) > 0


def test_a_factorization_comes_back_and_goes_on(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    for loaded in (exfam.load(tmp_path / "model"), PMIFactorization.load(tmp_path / "model")):
        assert loaded.get_params() == fitted.get_params()
        assert_same_vectors(loaded.vectors_, fitted.vectors_)
        assert loaded.score(TEXT) == fitted.score(TEXT)
        names = {name for name in ("eigenvalues_", "singular_values_") if hasattr(fitted, name)}
        assert names and all(
            np.array_equal(getattr(loaded, name), getattr(fitted, name)) for name in names
        )
        both = loaded.partial_fit(["a e a e"] * 3)
        whole = PMIFactorization(**fitted.get_params()).fit(TEXT + ["a e a e"] * 3)
        assert both.frequencies_.tolist() == whole.frequencies_.tolist()
        assert "e" in both.vectors_


def test_what_is_there_is_kept(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    with pytest.raises(ExfamError, match="`path` must be free, .*overwrite=True"):
        fitted.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="saved EFA, got PMIFactorization in"):
        EFA.load(tmp_path / "model")
    save_folder(tmp_path / "other", tensors={}, config={"estimator": "skip-gram"}, vocabulary={})
    with pytest.raises(ModelFileError, match="saved PMIFactorization, got SkipGram in"):
        PMIFactorization.load(tmp_path / "other")


def test_vectors_are_read_without_the_model(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    assert_same_vectors(WordVectors(*model_vectors(tmp_path / "model")), fitted.vectors_)


def test_linear_ties_are_worked_out(tmp_path):
    matrices = initial_matrices(3, 4, tie="linear", positive_share=0.5, seed=0)
    words = {"word": np.array(["a", "b", "c"], dtype=object)}
    save_folder(tmp_path / "m", tensors=matrices.stored(), config={}, vocabulary=words)
    found = WordVectors(*model_vectors(tmp_path / "m"))
    np.testing.assert_allclose(found.matrix("context"), matrices.outputs, rtol=1e-6)
    assert not np.allclose(found.matrix("context"), found.center)


def test_a_model_without_vectors_is_refused(tmp_path):
    save_folder(tmp_path / "m", tensors={}, config={"estimator": "efa"}, vocabulary={})
    with pytest.raises(ModelFileError, match="of words with vectors, got one of kind 'efa' in"):
        model_vectors(tmp_path / "m")


def test_arrays_and_tensors_of_a_folder_are_the_same(tmp_path):
    arrays = {"b": np.arange(3), "a": np.eye(2, dtype=np.float32)[:, ::-1]}
    save_folder(tmp_path / "m", tensors=arrays, config={}, vocabulary={})
    tensors = load_folder(tmp_path / "m").tensors
    save_folder(tmp_path / "n", tensors=tensors, config={}, vocabulary={})
    written = [(tmp_path / name / "model.safetensors").read_bytes() for name in "mn"]
    assert written[0] == written[1]
    for name, array in load_arrays(tmp_path / "n").tensors.items():
        np.testing.assert_array_equal(array, arrays[name])
        np.testing.assert_array_equal(array, tensors[name].numpy())


def test_parameters_of_numpy_are_saved(tmp_path):
    model = PMIFactorization(dim=2, min_count=2).fit(TEXT).set_params(seed=np.int64(3))
    model.save(tmp_path / "m")
    seed = exfam.load(tmp_path / "m").seed
    assert (type(seed), seed) == (int, 3)


def test_saving_and_reading_need_no_torch(tmp_path):
    code = f"""
import sys
from exfam.vectors import WordVectors
from exfam.vectors.word_vectors import model_vectors
from exfam.words import PMIFactorization
PMIFactorization(dim=2, min_count=2).fit({TEXT!r}).save({str(tmp_path / "m")!r})
print(len(model_vectors({str(tmp_path / "m")!r}).words), "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "4 False\n"
