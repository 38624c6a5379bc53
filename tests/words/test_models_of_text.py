"""What holds for every model of texts and of sentences: folders, interruptions, words unknown."""

import inspect

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

pytest.importorskip("tokenizers", reason="tokenizers (extra hf) is not installed")

import exfam
from every_estimator import case_of, tensors_of
from exfam import CBOW, EFA, DataError, ExfamWarning, PMIFactorization, SkipGram
from exfam.checks import CheckpointError, ExfamError, ModelFileError
from exfam.estimator.registry import class_of, kinds_of
from exfam.reading.text import prepare_text
from exfam.training.checkpoints import Checkpoint
from exfam.training.epochs import TextEngine
from exfam.training.torch_engine import TorchEngine
from toy_fit import cut_step

KINDS = [*kinds_of("text"), *kinds_of("sentences")]
RESUMED = [
    kind for kind in KINDS if "checkpoint" in inspect.signature(class_of(kind).fit).parameters
]
# Of which a fitted model must not know.
CHANGES = {
    "lstm-language-model": {"dim": 9, "n_layers": 3},
    "masked-language-model": {"n_heads": 4, "encoding": "none", "length": 5},
    "positional-sentence-classifier": {"w": 50.0, "padding": "renormalized", "n_positions": 2},
    "sentence-classifier": {"pooling": "first"},
    "sentence-regressor": {"pooling": "first"},
}
pytestmark = pytest.mark.filterwarnings("ignore:.*unknown to the model:exfam.checks.ExfamWarning")


def assert_same(one, other, case):
    assert tensors_of(one).keys() == tensors_of(other).keys()
    for name, array in tensors_of(one).items():
        np.testing.assert_array_equal(array, tensors_of(other)[name])
    assert one.score(*case.given) == other.score(*case.given)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_is_the_same(kind, tmp_path):
    case, path = case_of(kind), tmp_path / "model"
    fitted = case.fit()
    fitted.save(path)
    for loaded in (exfam.load(path), type(fitted).load(path)):
        assert loaded.get_params() == fitted.get_params()
        assert_same(loaded, fitted, case)
        assert getattr(loaded, "histories_", None) == getattr(fitted, "histories_", None)
    assert {file.suffix for file in path.iterdir()} <= {".safetensors", ".json", ".parquet"}
    with pytest.raises(ExfamError, match="`path` must be free, .*overwrite=True"):
        fitted.save(path)
    with pytest.raises(ModelFileError, match="must hold a saved EFA, got"):
        EFA.load(path)
    changes = CHANGES.get(kind, {"dim": 9})
    loaded.set_params(**changes).save(path, overwrite=True)
    for model in (loaded, exfam.load(path)):
        assert_same(model, fitted, case)
        assert changes.items() <= model.get_params().items()


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("kind", RESUMED)
def test_a_fit_cut_anywhere_goes_on_to_the_same_bits(kind, at, tmp_path, monkeypatch):
    case, folder = case_of(kind), Checkpoint(tmp_path, seconds=0.0)
    longer = {name: 3 for name in ("epochs", "max_epochs") if name in case.make().get_params()}
    whole = case.fit(**longer)
    engine = TorchEngine if hasattr(whole, "members_") else TextEngine

    def fit(**changes):
        model = case.make(**longer, **changes)
        return model.fit(*case.given, **case.also, checkpoint=folder)

    with monkeypatch.context() as patch:
        steps = cut_step(patch, engine, at)
        with pytest.raises(OSError, match="lights"):
            fit()
        assert_same(fit(), whole, case)
        n_steps = len(steps)
        assert_same(fit(), whole, case)
        assert len(steps) == n_steps, "a finished fit trains no more"
    with pytest.raises(CheckpointError, match="must belong to this fit.*seed"):
        fit(seed=9)


TEXT = ["a b a c", "c b a", "b c a b", "d c d", "d a d b"] * 4
PASSES = {"dim": 4, "min_count": 1, "epochs": 1, "threads": 1, "subsample": 0.0, "progress": False}
MODELS = {
    "skip-gram": lambda: SkipGram(**PASSES),
    "cbow": lambda: CBOW(**PASSES),
    "softmax": lambda: CBOW(**PASSES, likelihood="softmax"),
    "pmi": lambda: PMIFactorization(dim=2, min_count=1),
}


@pytest.mark.parametrize("name", MODELS)
def test_one_warning_counts_unknown_words_and_the_score_is_of_the_others(name):
    fitted, given = MODELS[name]().fit(TEXT), ["a b x c", "y b a", "z z z"]
    # PMI keeps the positions of words without vectors; the others close the gap.
    others = ["a b x c", "y b a"] if name == "pmi" else ["a b c", "b a"]
    for text in (given, prepare_text(given, min_count=1)):
        with pytest.warns(ExfamWarning, match="5 of the 10 words of `X` are unknown") as warned:
            score = fitted.score(text)
        assert len(warned) == 1 and np.isfinite(score)
        assert fitted.score(others) == pytest.approx(score)
    with pytest.raises(DataError, match="words of the vocabulary|must hold at least one pair"):
        fitted.score(["x y", "z"])


@pytest.mark.parametrize("kind", [CBOW, SkipGram])
def test_vectors_that_are_no_numbers_are_no_fit(kind):
    model = kind(**{**PASSES, "subsample": 0.001}, learning_rate=1e19)
    with pytest.raises(ExfamError, match=r"Word vectors must be below 1e\+18 .* `learning_rate`"):
        model.fit(["the cat sat on the mat", "the dog sat on the rug"] * 6)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.score(TEXT)


def test_vectors_are_made_once_for_each_fit():
    model = SkipGram(dim=4, min_count=1, threads=1, subsample=0.0, progress=False)
    model.fit(["a b c a", "c a b"] * 9)
    before = model.vectors_
    assert model.vectors_ is before
    model.partial_fit(["a d", "d b"] * 9)
    assert model.vectors_ is not before and "d" in model.vectors_ and "d" not in before
    assert model.vectors_.center.tolist() == model.input_vectors_.tolist()
