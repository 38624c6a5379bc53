"""Fields on the map show the numbers that they were given, where they belong."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from exfam import plots
from exfam.checks import ExfamError

RANDOM = np.random.default_rng(0)
PLACES = RANDOM.uniform([25, -124], [49, -67], (20, 2))
NAMES = [f"site {i}" for i in range(20)]
MEAN, SD = RANDOM.normal(60, 9, 20), RANDOM.uniform(1, 3, 20)
ONES = np.ones((1, 1, 20))


def where(coordinates):
    return [tuple(place) for place in coordinates[:, ::-1].round(6).tolist()]


def assert_shown(dots, value):
    """Each place has the color of its number."""
    places = [tuple(place) for place in np.asarray(dots.get_offsets()).round(6).tolist()]
    by_place = dict(zip(places, dots.get_array().tolist(), strict=True))
    assert by_place == dict(zip(where(PLACES), value.tolist(), strict=True))


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes[:3]]


def test_a_map_shows_mean_and_sd_at_each_place():
    figure = plots.field_map(PLACES, MEAN, SD, unit="°F", observed=PLACES[:5])
    left, right = figure.axes[:2]
    assert_shown(left.collections[0], MEAN)
    assert_shown(right.collections[0], SD)
    assert_allclose(left.collections[1].get_offsets(), PLACES[:5, ::-1])
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["observed"]
    middle = (PLACES[:, 0].min() + PLACES[:, 0].max()) / 2
    assert left.get_aspect() == pytest.approx(1 / np.cos(np.radians(middle)))
    bars = [axes.get_xlabel() for axes in figure.axes[2:]]
    assert bars == ["predictive mean (°F)", "standard deviation (°F)"]


def test_many_places_make_a_surface_and_grids_are_drawn_cell_by_cell():
    north, east = np.meshgrid(np.arange(30.0, 36.0), np.arange(-90.0, -80.0))
    places = RANDOM.permutation(np.stack([north.ravel(), east.ravel()], axis=1))
    value = 100 * places[:, 0] + places[:, 1]
    figure = plots.field_map(places, value, value, style="surface")
    cells = figure.axes[0].collections[0].get_array().reshape(6, 10)
    assert_array_equal(cells, 100 * np.arange(30.0, 36)[:, None] + np.arange(-90, -80))
    places = RANDOM.uniform(size=(500, 2))
    for n, kind in ((400, "PathCollection"), (500, "TriContourSet")):
        some = places[:n]
        figure = plots.field_map(some, some[:, 0], some[:, 1], metric="euclidean")
        assert type(figure.axes[0].collections[0]).__name__ == kind


def test_a_map_across_the_date_line_is_one_piece():
    places = np.array([[0.0, 178.0], [1.0, -179.0], [-1.0, -175.0]])
    axes = plots.field_map(places, np.arange(3.0), np.ones(3), observed=places[1:]).axes[0]
    dots, rings = (np.sort(np.asarray(c.get_offsets())[:, 0]) for c in axes.collections[:2])
    assert_allclose(np.diff(dots), [3, 4])
    assert_allclose(rings, dots[1:])
    axes.figure.draw_without_rendering()
    ticks = [label.get_text() for label in axes.get_xticklabels()]
    assert any(tick.endswith("E") for tick in ticks) and any(tick.endswith("W") for tick in ticks)
    assert {label.get_text()[-1] for label in axes.get_yticklabels()} == {"N", "S", "°"}


def test_the_worst_sites_are_named_with_their_scores():
    crps = SD.copy()
    crps[[4, 7]] = 9.5, 8.25
    axes = plots.crps_by_site(PLACES, crps, NAMES, n_labels=2).axes[0]
    assert [text.get_text() for text in axes.texts] == ["site 4 9.50", "site 7 8.25"]
    dots = axes.collections[0]
    assert_shown(dots, crps)
    assert dots.get_array()[np.argmax(dots.get_sizes())] == 9.5


def test_attention_is_drawn_from_the_site_to_those_with_weight():
    weights = np.full((2, 3, 20), 0.001)
    weights[:, 0, 4], weights[:, 1, 9], weights[:, 2, 9] = 0.5, 0.3, 0.1
    weights[0, 0, 6] = 0.2
    figure = plots.site_attention_map(PLACES, weights, 2, names=NAMES)
    assert titles(figure) == ["2 maps before: 12 %", "1 map before: 32 %", "same map: 62 %"]
    own = figure.axes[2]
    lines, dots, star = own.collections
    here, *others = PLACES[[2, 4, 6], ::-1].tolist()
    assert_allclose(lines.get_segments(), [(here, other) for other in others])
    assert lines.get_linewidths()[0] > 2 * lines.get_linewidths()[1]
    assert_shown(dots, weights[:, 0].mean(0))
    assert_allclose(star.get_offsets(), [here])
    assert [text.get_text() for text in own.texts] == ["site 4", "site 6"]
    assert figure.axes[-1].get_xlabel() == "attention weight (%) of site 2 ★"


def test_each_head_has_a_row_of_panels():
    weights = RANDOM.dirichlet(np.ones(20), size=(3, 1))
    figure = plots.site_attention_map(PLACES, weights, 0, heads="each")
    assert titles(figure) == [f"head {head}, same map: 100 %" for head in (1, 2, 3)]
    for head, axes in enumerate(figure.axes[:3]):
        assert_shown(axes.collections[1], weights[head, 0])


@pytest.mark.parametrize(
    ("name", "given", "more", "match"),
    [
        (
            "field_map",
            (PLACES, MEAN[1:], SD),
            {},
            "`mean` must be one for each of 20 places, got 1",
        ),
        ("field_map", (PLACES, MEAN, SD[1:]), {}, "`sd` must be one for each of 20"),
        ("field_map", (PLACES, MEAN, SD), {"style": "dots"}, "`style` must be one of 'sites'"),
        ("field_map", (PLACES, MEAN, SD), {"metric": "km"}, "`metric` must be one of 'havers"),
        ("crps_by_site", (PLACES, SD, NAMES[1:]), {}, "`labels` must be one for each of 20"),
        ("crps_by_site", (PLACES[:0], SD[:0], []), {}, r"must have two columns .* shape \(0, 2\)"),
        ("site_attention_map", (PLACES, ONES, 20), {}, "`site` must be a row of `coordinates`, be"),
        ("site_attention_map", (PLACES, ONES[..., 1:], 0), {}, "`weights` must be one for each of"),
    ],
)
def test_what_cannot_be_drawn_is_refused(name, given, more, match):
    with pytest.raises(ExfamError, match=match):
        getattr(plots, name)(*given, **more)
