"""Experiments on masked language models of our own."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("tokenizers", reason="tokenizers (extra hf) is not installed")

from exfam.language import MaskedLanguageModel, SentenceClassifier
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row
from exfam_studies.positions import figure2 as positions_figure2
from exfam_studies.positions import positions_dependencies, positions_linguistic, positions_swaps
from exfam_studies.positions import pretraining as positions_pretraining
from exfam_studies.positions.linguistic import scoring
from exfam_studies.positions.linguistic.balancing import Example, ProbingTask
from exfam_studies.positions.masked_lms import (
    COMPARED,
    SIZES,
    fit_masked_lm,
    masked_lm_folder,
    row_parameters,
    untrained,
)
from exfam_studies.positions.parses import DependencyParse
from exfam_studies.positions.public_sentences import SentencePart, SentenceTask


@pytest.fixture(scope="module")
def folder(tmp_path_factory, data_folder):
    """Where fits are kept; skips where the text or the sentences are not."""
    if not (data_folder / "lm").is_dir() or not (data_folder / "sentences").is_dir():
        pytest.skip("the folder has no texts, or no sentences")
    return tmp_path_factory.mktemp("fits")


@pytest.fixture
def options(folder):
    return Options(fast=True, folder=folder)


INTERRUPTED = SimpleNamespace(interrupted=True)


def cut_short(kind, monkeypatch):
    """Fits of an estimator end as Ctrl-C ends them."""
    monkeypatch.setattr(kind, "fit", lambda self, *given, **named: self)
    monkeypatch.setattr(kind, "history_", INTERRUPTED)


def no_more_fits(monkeypatch):
    for kind in (MaskedLanguageModel, SentenceClassifier):
        monkeypatch.setattr(kind, "fit", lambda *_, **__: pytest.fail("it was fitted again"))


def values(rows):
    result = {}
    for row in rows:
        named = [str(own) for name, own in row.settings.items() if name not in ("low", "high")]
        result[row.task, row.model, row.metric, *sorted(named)] = row.value
        if "low" in row.settings:
            low, high = row.settings["low"], row.settings["high"]
            assert low - 1e-3 <= row.value <= high + 1e-3
    return result


def test_models_are_fitted_once_and_kept(options, monkeypatch):
    first = fit_masked_lm("small", "tupe", seed=0, options=options)
    no_more_fits(monkeypatch)
    again = fit_masked_lm("small", "tupe", seed=0, options=options)
    assert again.score(["a film about a man"]) == first.score(["a film about a man"])
    fresh = untrained(first)
    assert fresh.score(["a film about a man"]) != first.score(["a film about a man"])
    np.testing.assert_array_equal(untrained(first).embed(["a film"]), fresh.embed(["a film"]))


def test_a_fit_that_was_cut_short_is_not_kept(options, monkeypatch):
    cut_short(MaskedLanguageModel, monkeypatch)
    with pytest.raises(KeyboardInterrupt, match="cut short"):
        fit_masked_lm("small", "alibi", seed=7, options=options)
    kept = masked_lm_folder("small", "alibi", seed=7, options=options)
    assert not (options.folder / kept / "model").exists()


def test_another_text_can_be_given(folder, tmp_path):
    (tmp_path / "films.txt").write_text("a film about two dogs and a man\n" * 90, encoding="utf-8")
    options = Options(fast=True, corpus=tmp_path / "films.txt")
    model = fit_masked_lm("small", "rotary", seed=0, options=options)
    assert "film" in model.vocabulary_["token"]
    kept = masked_lm_folder("small", "rotary", seed=0, options=options)
    assert kept.parts[1] == "films-fast"
    (tmp_path / "films.txt").write_text("another text of the same name", encoding="utf-8")
    assert masked_lm_folder("small", "rotary", seed=0, options=options) != kept


@pytest.mark.parametrize("ending", ["", "-both", "-positional"])
def test_rows_have_the_parameters_of_their_own_encoding(ending):
    for encoding in COMPARED:
        row = Row(task="t", model=encoding + ending, metric="nats")
        assert row_parameters(row, Options())["encoding"] == encoding
    assert row_parameters(Row(task="t", model="minilm", metric="nats"), Options()) == {}


@pytest.mark.parametrize("size", sorted(SIZES))
def test_every_size_is_one_that_can_be_built(size, options):
    # As wide and long as it is, with a layer in place of twelve and few pieces of words.
    model = MaskedLanguageModel(**{**SIZES[size], "n_layers": 1})
    model._check_parameters()
    subwords = fit_masked_lm("small", "tupe", seed=0, options=options).subwords_
    network = model.network(subwords).eval()
    tokens = torch.full((1, SIZES[size]["length"]), 7)
    assert network(tokens, tokens > 0).states[-1].shape[-1] == SIZES[size]["embed_dim"]
    assert size in positions_pretraining.RATE


@pytest.mark.filterwarnings("ignore:.*unknown to the model:exfam.checks.ExfamWarning")
def test_encodings_are_compared_by_nats_positions_and_sentences(options, monkeypatch):
    monkeypatch.setattr(positions_pretraining, "COMPARED", ("tupe",))
    monkeypatch.setattr(positions_pretraining, "SENTENCE_SETS", ("mr", "mrpc"))
    wanted = Options(fast=True, folder=options.folder, only=["small"])
    result = values(positions_pretraining.run(wanted))
    assert 4 < result["small", "counts", "nats"] < 6.3
    assert result["small", "tupe", "nats"] < np.log(500) + 0.1
    locality = "small", "tupe", "position-locality"
    assert result[*locality, "before"] != result[*locality, "after"]
    for name in ("mr", "mrpc"):
        assert 0.3 <= result[f"small-{name}", "majority", "accuracy"] <= 0.8
        for model in ("frozen", "tuned"):
            assert 0 <= result[f"small-{name}", "tupe", "accuracy", model] <= 1
    no_more_fits(monkeypatch)
    assert values(positions_pretraining.run(wanted)) == result


def test_of_equal_penalties_the_largest_is_taken_whatever_the_test_part_says(monkeypatch):
    vectors = {"good": [1, 0], "bad": [-1, 0], "fine": [0, 1], "poor": [0, -1]}
    labels = np.array(["positive", "negative"])
    held, test = SentencePart(("good", "bad"), labels), SentencePart(("fine", "poor"), labels)
    seen = []

    def fitted(features, codes, *, n_classes, penalty):
        """Right on the validation part in any case, on the test part with the least penalty."""
        seen.append(penalty)
        sign = 1.0 if penalty == min(scoring.PENALTIES) else -1.0
        weights = np.array([[-1.0, 1.0], [-sign, sign]])
        return scoring.SoftmaxFit(weights, np.zeros(2), np.zeros(2), 1.0)

    monkeypatch.setattr(scoring, "fit_softmax", fitted)
    task = SentenceTask("toy", held, held, test)
    result = positions_pretraining.linear_score(
        lambda sentences: np.array([vectors[own] for own in sentences], float), task
    )
    assert result == (0.0, 1.0) and sorted(seen) == sorted(scoring.PENALTIES)


def test_a_tuning_that_was_cut_short_is_no_result(options, monkeypatch):
    monkeypatch.setattr(positions_pretraining, "COMPARED", ("tupe",))
    cut_short(SentenceClassifier, monkeypatch)
    fresh = Options(fast=True, folder=options.folder, only=["small"], seeds=2)
    assert {row.model for row in positions_pretraining.run(fresh)} == {"majority", "words"}
    monkeypatch.setattr(positions_swaps, "COMPARED", ("tupe",))
    with pytest.raises(KeyboardInterrupt, match="cut short"):
        positions_swaps.run(Options(fast=True, folder=options.folder, only=["tupe"]))


def test_own_models_are_scored_before_and_after_training(options, monkeypatch):
    monkeypatch.setattr(positions_figure2, "COMPARED", ("tupe",))
    wanted = Options(fast=True, folder=options.folder, only=["masked-lms"])
    rows = positions_figure2.run(wanted)
    result = {
        row.settings["training"]: row.value
        for row in rows
        if row.settings["matrix"] == "mean" and row.metric == "position-locality"
    }
    assert result["before"] != result["after"]


def test_own_models_find_dependencies_by_term(options, monkeypatch):
    def parse(*words):
        n = len(words)
        heads = np.array([1, -1, *range(1, n - 1)])
        relations = ("nsubj", "root", *["obj"] * (n - 2))
        return DependencyParse(words, ("X",) * n, ({},) * n, heads, relations)

    parses = [parse("he", "saw", "the", "film"), parse("she", "made", "it")] * 20
    monkeypatch.setattr(
        positions_dependencies, "english_parses", lambda part: [*parses, parse(*"ab" * 80)]
    )
    monkeypatch.setattr(positions_dependencies, "PROBED", ("tupe",))
    wanted = Options(fast=True, folder=options.folder, only=["masked-lm"])
    monkeypatch.setattr(positions_dependencies, "FAST_SENTENCES", None)
    rows = positions_dependencies.run(wanted)
    assert {row.model for row in rows} == {"tupe-both", "tupe-contextual", "tupe-positional"}
    # The sentence of 160 words is beyond the last position.
    own = {row.task: row for row in rows if row.model == "tupe-positional"}
    nsubj = own["relation-nsubj"]
    assert nsubj.settings["dependencies"] == 40
    assert nsubj.settings["low"] <= nsubj.value <= nsubj.settings["high"]
    assert {task for task in own if task.startswith("distance")} == {"distance-0", "distance-1"}


def test_layers_are_probed_by_term(options, monkeypatch):
    def part(numbers):
        return tuple(
            Example(("a",) * n, "long" if n > 5 else "short", str(n)) for n in numbers for _ in "ab"
        )

    task = ProbingTask("SentLen", ("long", "short"), *(part(range(k, 10)) for k in (1, 2, 3)))
    monkeypatch.setattr(positions_linguistic, "linguistic_tasks", lambda **named: {"SentLen": task})
    monkeypatch.setattr(positions_linguistic, "PROBED", ("tupe",))
    wanted = Options(fast=True, folder=options.folder, only=["SentLen"])
    rows = positions_linguistic.run(wanted)
    result = values(rows)
    assert result["SentLen", "length", "accuracy"] == 1.0
    assert result["SentLen", "examples", "count-train"] == 18
    for term in ("both", "contextual", "positional"):
        for layer in ("1", "2"):
            assert 0 <= result["SentLen", f"tupe-{term}", "accuracy", layer] <= 1
            assert ("SentLen", f"tupe-{term}", "shuffled-accuracy", layer) in result


def test_swaps_are_scored_before_and_after(options, monkeypatch):
    monkeypatch.setattr(positions_swaps, "COMPARED", ("tupe",))
    rows = positions_swaps.run(Options(fast=True, folder=options.folder))
    result = values(rows)
    assert result["swap-roles", "pairs", "count-pairs"] > 5
    # All pairs of it are entailments, and contradictions after.
    roles = "swap-roles", "majority", "accuracy"
    assert {result[*roles, "before"], result[*roles, "after"]} <= {0.0, 1.0}
    for model in ("majority", "words", "tupe"):
        for name in ("shuffle-3", "shuffle-all", "swap-roles"):
            change = result[name, model, "change-of-accuracy", "change"]
            accuracies = [result[name, model, "accuracy", when] for when in ("before", "after")]
            assert change == pytest.approx(accuracies[1] - accuracies[0])
