"""Models of text read files of other encodings as the same text in UTF-8."""

import pytest

from exfam import DataError, LSTMLanguageModel, MaskedLanguageModel, PMIFactorization

LINES = ["un café noir", "du thé vert été"] * 30
SMALL = {"embed_dim": 8, "n_heads": 2, "n_layers": 1, "feed_forward_dim": 16, "length": 16}
MODELS = [
    LSTMLanguageModel(dim=4, epochs=1, batch_size=2, progress=False),
    MaskedLanguageModel(vocabulary_size=60, max_epochs=1, progress=False, **SMALL),
    PMIFactorization(dim=2, min_count=2),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
def test_files_of_another_encoding_give_the_model_of_their_lines(model, tmp_path):
    path = tmp_path / "menu.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="latin-1")
    with pytest.raises(DataError, match=r"UTF-8, got .* encoding='cp1252' \(of a model file_enc"):
        model.fit(path)
    expected = model.fit(LINES).score(LINES)
    own = type(model)(**{**model.get_params(), "file_encoding": "latin-1"}).fit(path)
    assert own.score(path) == own.score(LINES) == expected
