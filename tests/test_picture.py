"""The README's picture, of a few simulated cars."""

import numpy as np
import picture
import pytest
from picture import MILES, THEMES

from exfam import MaskedTable


@pytest.fixture(scope="module")
def cars():
    rng = np.random.default_rng(0)
    weight = rng.uniform(1600, 4500, 90).round()
    return {
        MILES: (50_000 / weight * rng.lognormal(0, 0.1, 90)).round(1),
        "year": rng.integers(1970, 1983, 90).astype(float),
        "weight": weight,
        "cylinders": np.where(weight > 3500, "8", np.where(weight > 2700, "6", "4")).astype(object),
        "horsepower": (weight / 30).round(),
        "origin": rng.choice(picture.ORIGINS, 90),
    }


def test_every_panel_is_drawn_and_parts_add_up(cars):
    model = MaskedTable(fast=True, progress=False).fit(cars)
    car = {name: column[0] for name, column in cars.items()}
    figure = picture.draw(model, car, THEMES[1])
    figure.draw_without_rendering()
    densities, parts, backwards = figure.axes
    assert f"truth: {car[MILES]:.0f}" in [text.get_text() for text in densities.texts]
    start, end = (float(line.get_xdata()[0]) for line in parts.lines)
    assert start + sum(bar.get_width() for bar in parts.patches) == pytest.approx(end, rel=0.01)
    assert {text.get_color() for text in backwards.texts} == {THEMES[1].ink}
    assert 0.5 < sum(bar.get_height() for bar in backwards.patches) <= 1 + 1e-6
