"""Reports about word vectors: what they say first, their sections, and the page."""

import re

import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam.language import LSTMLanguageModel
from exfam.report import write_report
from exfam.report.contents import ReportRequest
from exfam.report.kinds import builder_of
from exfam.vectors import WordVectors
from exfam.words import PMIFactorization, SkipGram
from page_reader import Reader
from test_report import looked_at
from words.vector_cases import matrix

STEMS = [
    a + b for a in ("kat", "dog", "pen", "hut", "cup", "map") for b in ("ar", "el", "in", "o", "u")
]
SETTINGS = {
    "dim": 8,
    "epochs": 2,
    "min_count": 1,
    "threads": 1,
    "progress": False,
    "subsample": 0.0,
}


def sentences(n=300, *, seed=0):
    random = np.random.default_rng(seed)
    return [
        " ".join(word + random.choice(["", "s"]) for word in random.choice(STEMS[k % 5 :: 5], 5))
        for k in range(n)
    ]


@pytest.fixture(autouse=True)
def nothing_published(monkeypatch, tmp_path):
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    monkeypatch.setattr("exfam.reading.public_sets.published.cache_folder", lambda: tmp_path / "no")


@pytest.fixture(scope="module")
def model():
    return SkipGram(**SETTINGS, tie="reflection").fit(sentences())


def content(model, data=None, **request):
    return builder_of(model)(model, ReportRequest(data, **request))


def test_a_model_is_scored_beside_frequencies_on_a_text(model):
    page = content(model, sentences(seed=1))
    said = page.summary
    assert re.match(r"−\d\.\d{3} nats per pair of words, over a text of 1,500 words", said.quality)
    assert "analogies of endings" in said.quality and said.quality.endswith("right.")
    assert re.search(r"Frequencies of words alone have −\d\.\d{3} nats", said.against)
    assert "the word nearest to the third one answers" in said.against
    assert "text was not part of what" in " ".join(said.careful)
    titles = [section.title for section in page.sections]
    assert titles == [
        "Vectors", "Scores", "Neighbors", "Map of words", "Analogies", "Length and frequency",
        "Spectrum",
    ]  # fmt: skip
    assert page.lead == (
        "SkipGram of 60 words, 8 numbers each, whose context vectors are their reflections."
    )


def test_unknown_and_rare_words_are_pointed_out(model):
    page = content(model, [f"{sentence} zebra" for sentence in sentences(seed=1)])
    assert page.summary.careful[0].startswith("17 % of the words of the text are unknown")
    few = SkipGram(**SETTINGS).fit(sentences(60))
    assert any("were read fewer than 20 times" in said for said in content(few).summary.careful)


def test_vectors_of_a_file_say_what_is_not_known_and_what_they_share():
    rows = matrix(rows=200, dim=8) / 4
    rows[:, 0] += 1
    rows[7] = 0
    vectors = WordVectors(tuple(f"q{k}x" for k in range(200)), rows)
    page = content(vectors)
    assert page.summary.quality.startswith("Not known: there was no text and no test set")
    assert page.summary.against == "Nothing: there was nothing to compare on."
    assert re.search(r"Any two words have a cosine of 0\.\d\d", " ".join(page.summary.careful))
    assert page.sections[1].text[0].startswith("Left out: no text was given")
    assert page.sections[4].text[0].startswith("Left out: no published set was found")
    shown = [row[0] for row in page.sections[2].parts[0].rows]
    assert shown[0] == "q0x" and "q7x" not in shown
    hub = np.concatenate([matrix(rows=150, dim=40), np.full((1, 40), 0.01, np.float32)])
    hub[:150] += 0.6
    near = content(WordVectors(tuple(f"q{k}x" for k in range(151)), hub)).summary.careful
    assert any("“q150x” is among the 10 nearest of" in said for said in near)


def test_published_sets_are_scored_where_there_are_enough_words(model, monkeypatch):
    from exfam.reading.public_sets.word_pairs import WordPairs
    from exfam.reading.public_sets.word_questions import WordQuestions

    words = model.vectors_.words
    random = np.random.default_rng(0)
    pairs = tuple(tuple(random.choice(words, 2, replace=False)) for _ in range(40))
    human = np.array([model.vectors_.similarity(*pair) for pair in pairs])
    questions = WordQuestions("quiz", (tuple(words[:4]),) * 50, ("all",) * 50, {})
    few = WordPairs("few", (("no", "way"),), np.ones(1))
    sets = [WordPairs("people", pairs, human), few, questions]
    monkeypatch.setattr("exfam.report.vectors.word_scores.published_word_sets", lambda: (sets, []))
    page = content(model)
    assert (
        "a rank correlation of 1.00 with people's judgments (1 set)" in page.summary.quality.lower()
    )
    assert "of published analogies of known words right" in page.summary.quality
    assert "letters that two words share correlate by" in page.summary.against.lower()
    assert page.sections[1].text == ["Too few known words in: few."]
    titles = [part.inside[0].title for part in page.sections[4].parts]
    assert titles == ["Published analogies: quiz", "Endings in the vocabulary"]


@pytest.mark.parametrize(
    ("model", "request_", "message"),
    [
        (
            WordVectors(("a",), matrix(rows=1)),
            {"data": "x"},
            "`data` must be left out for word vec",
        ),
        (SkipGram(), {"train": "x"}, "`train` must be left out for word vectors, got a text"),
        (
            WordVectors(("a",), np.zeros((1, 2), np.float32)),
            {},
            "a vector that is not zero, got non",
        ),
        (LSTMLanguageModel(), {}, "`model` must be fitted and have vectors of words, got LSTMLan"),
        (PMIFactorization(), {}, "`model` must be fitted and have vectors of words, got PMIFact"),
    ],
)
def test_what_has_no_report_is_refused(model, request_, message):
    with pytest.raises(ExfamError, match=message):
        content(model, **request_)


def test_the_page_is_small_and_readable_at_both_widths(model, tmp_path):
    path = write_report(model, sentences(seed=1), path=tmp_path / "page.html")
    page = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 2_000_000 and Reader(page).open == []
    measured, complaints = looked_at({"words": page}, tmp_path)
    assert not complaints and sorted(seen["width"] for seen in measured) == [400, 1280]
    for seen in measured:
        assert seen["wanted"] <= seen["width"] and not seen["clipped"] and not seen["cut"]
        assert len(seen["pictures"]) == seen["titles"] == 4 and min(seen["drawn"]) > 3
        assert seen["smallest"][0] >= 9 and len(seen["maps"]) == 1


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_vectors_of_any_length_have_the_same_page(scale):
    rows = matrix(rows=60, dim=3)
    words = tuple(f"q{k}x" for k in range(60))
    page, plain = (content(WordVectors(words, rows * np.float32(by))) for by in (scale, 1))
    assert page.summary == plain.summary
    for of_page, of_plain in zip(page.sections[2].parts, plain.sections[2].parts, strict=True):
        assert of_page.rows == of_plain.rows


def test_two_words_have_no_map():
    page = content(WordVectors(("a", "b"), matrix(rows=2)))
    assert page.sections[3].text == ["Left out: fewer than three words have vectors."]


def test_a_factorization_has_counts_and_no_learning_curve():
    page = content(PMIFactorization(dim=4, min_count=2).fit(sentences()))
    facts, *more = page.sections[0].parts
    assert dict(facts.entries)["words of text read"] == "1,500" and not more
