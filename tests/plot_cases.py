"""What every function of `exfam.plots` is tried on."""

import itertools

import numpy as np

from exfam.columns.results import PlottedResult
from exfam.efa.explain import Explanation
from exfam.scores.calibration import IntegralShares, Reliability
from exfam.training.history import Epoch, History
from result_cases import MAKERS


def explanation(n=3, *, layers=2, heads=2, parts=("values",)):
    weights = np.random.default_rng(0).dirichlet(np.ones(n + 1), size=(layers, heads, n))
    names = [f"movie {i}" for i in range(n)]
    return Explanation("u", names, [*names, "(nothing)"], {part: weights for part in parts})


def history(*, validation=True):
    rows = [
        Epoch(e, 10 * e, 2.0 / e, 2.2 / e if validation else None, 3e-3, 0.1 * e, validation)
        for e in (1, 2, 3)
    ]
    return History(tuple(rows), "max_epochs")


PAIRS, HUNDRED = 150 * 2 ** np.arange(20), np.full(20, 100.0)
MEANS = {
    "predicted": {"EFA": np.array([1.1, 2.9, 3.1]), "LF": np.array([2.0, 2.0, 2.0])},
    "true": np.array([1.0, 3.0, 3.0]),
    "case": np.array(["low", "high", "high"]),
}
BARS = {"labels": ["EFA", "LF"], "values": np.array([1.03, 2.2]), "metric": "MSE"}
MORE = {"spread": np.array([0.1, 0.2]), "paper": np.array([1.04, np.nan])}
POINTS = np.random.default_rng(0).normal(size=(30, 2))
SITES = np.random.default_rng(1).uniform([25, -124], [49, -67], (30, 2))
NORTH = SITES[:, 0]
NAMES = [f"site {i}" for i in range(30)]
ATTENTION = np.random.default_rng(2).dirichlet(np.ones(60), size=2).reshape(2, 2, 30)
MATRICES = {f"head {k}": np.random.default_rng(k).dirichlet(np.ones(8), size=8) for k in range(3)}
CURVES = (np.array([0.0, 0.5]), {"trees": np.array([0.8, 0.6])})

TOGETHER = np.corrcoef(np.random.default_rng(4).normal(size=(5, 9)))

# Function, what it is called with.
LENGTHS = np.random.default_rng(5).uniform(1, 2, 40)
FIGURES = [
    ("spectrum_curves", ({"center": np.arange(9.0), "context": np.ones(9)},), {}),
    ("length_by_frequency", (LENGTHS, np.arange(1, 41)), {"label": "rank", "seed": 0}),
    ("association_map", (TOGETHER, NAMES[:5]), {"clear": np.abs(TOGETHER) > 0.1}),
    ("association_map", (np.eye(2), NAMES[:2]), {}),
    ("known_curves", ({"EFA": {0.0: 0.3, 1.0: 0.2}},), {}),
    ("conditional_band", (NORTH[:3], NORTH[:3], NORTH[:3] - 1, NORTH[:3] + 1), {"y": "price"}),
    ("conditional_shares", (["a", "b"], np.eye(2), ["no", "yes"]), {"x": "case", "y": "answer"}),
    ("coverage_curve", (np.linspace(0, 1, 50),), {}),
    ("crps_by_site", (SITES, NORTH, NAMES), {"unit": "°F"}),
    ("field_map", (SITES, NORTH, -NORTH), {"observed": SITES[:9]}),
    ("field_map", (SITES, NORTH, np.ones(30)), {"style": "surface", "observed": SITES}),
    ("site_attention_map", (SITES, ATTENTION, 3), {"names": NAMES}),
    ("site_attention_map", (SITES, ATTENTION, 3), {"heads": "each", "metric": "euclidean"}),
    ("field_map", (SITES, NORTH, np.ones(30)), {"stacked": True}),
    ("plan_map", (SITES, np.linspace(0, 0.1, 30), SITES[:9]), {"width": 4.8}),
    ("series_band", (NAMES, NORTH, NORTH, NORTH - 1, NORTH + 1), {"unit": "°F"}),
    ("position_matrices", (MATRICES,), {"columns": 2}),
    ("histogram", (np.array([1, 2, 2, 5]),), {"label": "length", "of": "groups"}),
    ("integral_bars", (IntegralShares(np.full(20, 0.05), np.full(20, 0.01), 400),), {}),
    ("integral_histogram", (np.linspace(0, 1, 50),), {}),
    ("interval_rows", (["LF"], np.array([[0.1, 0.2, 0.3]])), {"metric": "x"}),
    ("item_map", (POINTS, [f"item {i}" for i in range(30)]), {"labels": ("a", "b")}),
    ("layer_map", (explanation(20),), {"part": "values", "layer": 1}),
    ("reliability_diagram", (Reliability(PAIRS, HUNDRED, HUNDRED, HUNDRED),), {}),
    ("attention_map", (explanation(60, layers=1, heads=1),), {"heads": "mean"}),
    ("expert_bars", (["a = 7", "km = 90"], np.eye(2)[0], np.eye(2)), {"outputs": ["poor", "good"]}),
    ("missing_curves", CURVES, {"metric": "accuracy"}),
    ("learning_curve", (history(),), {"references": {"Bayes": 0.5}}),
    ("means_by_case", (), {**MEANS, "unit": "rating"}),
    ("sum_bars", ([("tea", ["milk", "salt"], np.array([0.1, -0.4]))],), {"label": "adds"}),
    ("result_bars", (), {**BARS, **MORE}),
    *[(make.__name__, (), {}) for make in MAKERS],
]


def drawings(name, given, more):
    """Name and arguments of a figure, or of all those that results of a kind have."""
    made = [make() for make in MAKERS if make.__name__ == name]
    for result in itertools.chain.from_iterable(made):
        if isinstance(result, PlottedResult):
            yield result.picture, (result,), {}
    if not made:
        yield name, given, more
