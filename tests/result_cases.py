"""One result of every class that public methods return, made when a test needs it."""

import functools
from collections.abc import Iterator

import numpy as np
import torch

from every_estimator import case_of
from exfam import MaskedTable
from exfam.columns.results import TabularResult
from exfam.efa.contributions import Contributions
from exfam.efa.explain import Explanation
from exfam.efa.recommend import Recommendations
from exfam.efa.related import Relations
from exfam.efa.similar import Similar
from exfam.efa.value_explanations import ValueExplanation
from exfam.estimator.seen import Overlap
from exfam.families import Gaussian
from exfam.families.mixtures import Mixture
from exfam.fields.draws import Forecast, Sensing
from exfam.fields.explanations import FieldExplanation
from exfam.fields.stations import StationPlan
from exfam.positions import PositionAttention
from exfam.scores.prediction import Prediction
from exfam.scores.recommenders import RecommenderScores
from exfam.tables.answers.orders import OrderDisagreement
from exfam.tables.answers.similarity import column_similarity
from exfam.tables.experts.faithfulness import DeletionInsertion
from exfam.training.history import Epoch, History
from small_forests import small_forests

WORDS = np.array(["tea", "milk", "salt"], dtype=object)
NUMBERS = np.array([0.7, -0.2, 0.1])
ITEMS = np.array([["milk", "tea"], ["salt", "milk"]])
RECOMMENDED = Recommendations(np.array(["u1", "u2"]), ITEMS, np.array([[0.5, 0.2], [0.4, 0.1]]))
RELATED = Relations("tea", WORDS[1:], NUMBERS[:2])
ONE = np.ones(1)
ADDED = Contributions(
    WORDS[:1], WORDS[:1], ONE, ONE, ONE, ONE, ONE, ONE, 0.0, ONE, 0 * ONE,
    candidate=np.zeros(3, int), context=WORDS, contribution=NUMBERS,
)  # fmt: skip
OF_VALUES = ValueExplanation(
    column="stars", transform="identity", rows=np.array([4]), groups=WORDS[:1], items=WORDS[:1],
    values=ONE, location=ONE, center=ONE, nats=-ONE, element=np.zeros(3, int),
    part=np.array(["overall", "level", "value"], object), context=WORDS, context_value=NUMBERS,
    by_level=NUMBERS, to_location=NUMBERS, to_center=NUMBERS, to_nats=NUMBERS,
)  # fmt: skip
FIELD = FieldExplanation(
    time=3, site=np.array(["a", "b", "a"], object), coordinates=np.zeros((3, 2)),
    steps_back=np.array([0, 0, 1]), own=np.array([True, True, False]),
    attention=[np.full((2, 2, 3), 0.3)], null=[np.full((2, 2), 0.1)], read_out=None,
    contributions=np.array([[0.0, 1.0, -2.0], [0.5, 0.0, 0.1]]),
)  # fmt: skip
DRAWS = np.random.default_rng(0).normal(size=(20, 3, 2))
FUTURE = Forecast(np.datetime64("2024-01-01") + np.arange(3), WORDS[:2], np.zeros((2, 2)), DRAWS)
GAUSSIAN = Mixture(Gaussian(scale=2.0), torch.tensor([[[5.0], [7.0]]]))
SIZES = (2, 1, 4, 4), (1, 4, 4), (2, 1, 4)
SHARES = [torch.full(size, 0.25, dtype=torch.float64) for size in SIZES]
ROWS = [Epoch(e, 10 * e, 2.0 / e, 2.2 / e, 3e-3, 0.1 * e, True) for e in (1, 2, 3)]
TABLE = {
    "rooms": np.tile([1.0, 2.0, 3.0, 4.0], 15),
    "city": np.tile(["Bonn", "Oslo", "Rome"], 20),
}


@functools.cache
def of_tables() -> list[TabularResult]:
    """Of a base, and of an attention network."""
    with small_forests():
        base = MaskedTable(fast=True, progress=False).fit(TABLE)
    few = {name: column[:5] for name, column in TABLE.items()}
    network = case_of("masked-table").fit()
    (frame,) = case_of("masked-table").given
    return [
        base.experts(few, targets=["rooms"]),
        base.explain(few),
        base.conditional(["rooms", "city"], given={}),
        base.impute({"rooms": np.array([1.0, np.nan]), "city": np.array(["Bonn", None], object)}),
        network.experts(frame.head(3), targets=["city"]),
        network.explain(frame.head(3)),
        network.shift_report(frame, frame.head(40)),
    ]


@functools.cache
def of_communities() -> list[TabularResult]:
    """Of a small one."""
    model, (sites,) = case_of("community").fit(), case_of("community").given
    return [model.predict_dist(sites), model.explain(sites)[0], model.associations()]


@functools.cache
def of_events() -> list[TabularResult]:
    """Of a few streams."""
    model, (streams,) = case_of("event-efa").fit(), case_of("event-efa").given
    return [
        model.predict(streams),
        model.predict_count(streams, 1.0, n_draws=5),
        model.sample(streams, steps=2),
        model.explain(streams, top=2),
        model.calibration(streams),
        model.count_calibration(streams, 1.0, n_draws=5),
    ]


BY_HAND = [
    RECOMMENDED, RELATED, ADDED, OF_VALUES, FIELD, FUTURE,
    Explanation("u1", ["tea"], ["tea"], {}, ADDED),
    Explanation("u1", ["tea"], ["tea"], {}, None, {"stars": OF_VALUES}),
    Explanation("u1", ["tea", "milk"], ["tea", "milk"], {"items": np.ones((1, 1, 2, 2)) / 2}),
    Similar("item", WORDS[:1], WORDS[None, 1:], NUMBERS[None, 1:], "vectors"),
    Sensing(np.array([0.5, np.nan, 2.0]), np.array([3.0, np.nan, 4.0])),
    PositionAttention(*SHARES, 4, "bidirectional"),
    Overlap(np.array([1.0, 0.0]), 0.1),
    Prediction(GAUSSIAN, np.array([0, 2]), 3),
    OrderDisagreement((("a", "b"), ("b", "a")), np.array([[-1.0, -3.0]]), np.eye(2)),
    column_similarity(np.array([[[1.0, 0.0], [2.0, 0.1], [0.0, 1.0]]]), ["a", "b", "c"]),
    History(tuple(ROWS), "max_epochs"),
    RecommenderScores(
        k=2, groups=WORDS, n_hidden=3, n_items=9, by_group={"Popularity": {"hits": NUMBERS}},
        overall={"Popularity": {"coverage": 0.5}},
    ),
    StationPlan(np.eye(3), NUMBERS, np.eye(3), NUMBERS, 2.0), DeletionInsertion(NUMBERS, NUMBERS),
]  # fmt: skip


def by_hand() -> list[TabularResult]:
    """Of no fit."""
    return BY_HAND


MAKERS = (by_hand, of_tables, of_communities, of_events)


def all_results() -> Iterator[TabularResult]:
    """By hand and of fits."""
    for make in MAKERS:
        yield from make()
