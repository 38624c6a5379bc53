"""Draws the picture of README.md, for light and for dark pages: python docs/picture.py.

Needs the package of the studies, which finds the table of cars in the folder EXFAM_DATA.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from exfam import Between, MaskedTable
from exfam.plots.style import COLORS
from exfam_studies.experts.tables.data import read_columns

MILES = "miles per gallon"
CAR = ("honda civic cvcc", 78)
ORIGINS = np.array(["USA", "Europe", "Japan"], dtype=object)
# What is known of the car, one more line at a time.
LINES = (
    ("nothing known", ()),
    ("built in 1978", ("year",)),
    ("4 cylinders", ("cylinders",)),
    ("1,800 pounds", ("weight",)),
    ("60 hp, Japan", ("horsepower", "origin")),
)
LOW, HIGH = 8.0, 48.0
GRID = np.linspace(LOW, HIGH, 201)
BACKWARDS = {"year": Between(1975, 1979), MILES: Between(18, 22)}


@dataclass(frozen=True)
class Theme:
    """Colors of a page."""

    name: str
    paper: str
    ink: str
    faint: str


THEMES = (
    Theme("light", "#ffffff", "#24292f", "#8b949e"),
    Theme("dark", "#0d1117", "#e6edf3", "#8b949e"),
)


def read_cars() -> tuple[dict[str, np.ndarray], int]:
    """Columns of 398 cars of 1970 to 1982, with their missing cells, and the row of our car."""
    rows = read_columns("tabular/auto-mpg.csv")
    power = [np.nan if text == "?" else float(text) for text in rows["horsepower"]]
    cars = {
        MILES: rows["mpg"].astype(float),
        "year": 1900.0 + rows["model year"],
        "weight": rows["weight"].astype(float),
        "cylinders": rows["cylinders"].astype(str).astype(object),
        "horsepower": np.array(power),
        "origin": ORIGINS[rows["origin"] - 1],
    }
    ours = (rows["car name"] == CAR[0]) & (rows["model year"] == CAR[1])
    return cars, int(np.flatnonzero(ours)[0])


def plain(axes: Axes, theme: Theme, title: str) -> None:
    """A panel with a baseline and a title, and nothing else around it."""
    axes.set_facecolor("none")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(theme.faint)
    axes.tick_params(axis="x", colors=theme.ink, labelsize=10)
    axes.tick_params(axis="y", colors=theme.ink, labelsize=10, length=0)
    axes.xaxis.label.set(color=theme.ink, size=10)
    axes.set_title(title, loc="left", color=theme.ink, fontsize=11.5, fontweight="bold")


def draw_densities(axes: Axes, model: MaskedTable, car: Mapping[str, object], theme: Theme) -> None:
    """How far it goes on a gallon, as more and more of its row is known."""
    known: dict[str, object] = {}
    for row, (label, added) in enumerate(LINES):
        known |= {name: car[name] for name in added}
        miles = model.conditional(MILES, given=known or {"year": np.nan}).predict_dist(MILES)
        density = np.exp([miles.log_prob(np.array([at]))[0] for at in GRID])
        low, high = (float(end[0]) for end in miles.interval(0.8))
        inside = (low <= GRID) & (high >= GRID)
        height = 7.5 * density - row
        axes.fill_between(GRID, -row, height, color=COLORS[0], alpha=0.25, lw=0)
        axes.fill_between(GRID, -row, height, where=inside, color=COLORS[0], alpha=0.75, lw=0)
        text = f"{'+ ' if row else ''}{label}"
        axes.text(LOW - 0.8, 0.05 - row, text, color=theme.ink, ha="right", fontsize=10.5)
        text = f"{low:.0f} to {high:.0f}"
        axes.text(HIGH + 0.8, 0.05 - row, text, color=theme.ink, fontsize=10.5)
    truth = float(str(car[MILES]))
    axes.axvline(truth, color=COLORS[1], lw=1.8)
    axes.text(truth + 0.6, 0.86, f"truth: {truth:.0f}", color=COLORS[1], fontsize=10.5)
    axes.set(xlim=(LOW, HIGH), ylim=(1 - len(LINES), 1.02), yticks=[])
    axes.set_xlabel("miles per gallon (solid, and in numbers: the central 80 %)")
    plain(axes, theme, "A car kept out of the fit, as more of it is known")


def draw_parts(axes: Axes, model: MaskedTable, car: Mapping[str, object], theme: Theme) -> None:
    """From the average car to the prediction, one cell after another."""
    why = model.experts({name: [value] for name, value in car.items()})
    target = why.targets.index(MILES)
    parts = dict(zip(why.columns, why.parts[0, target, :, 0], strict=True))
    parts.pop(MILES)
    names = sorted(parts, key=lambda name: -abs(parts[name]))
    at = np.exp(why.start[0, target, 0] + np.cumsum([0.0, *(parts[name] for name in names)]))
    ends = [at[0], *at[1:], np.exp(why.outputs[0, target, 0])]
    for row, name in enumerate(names, 1):
        color = COLORS[2] if at[row] > at[row - 1] else COLORS[1]
        axes.barh(row, at[row] - at[row - 1], left=at[row - 1], height=0.6, color=color)
        beside = max(at[row], at[row - 1]) + 0.4
        text = f"{100 * np.expm1(parts[name]):+.0f} %"
        axes.text(beside, row, text, color=theme.ink, va="center", fontsize=9.5)
    for row in (0, len(names) + 1):
        axes.plot(ends[row], row, "o", color=COLORS[0], ms=8)
        text = f"{ends[row]:.1f}"
        axes.text(ends[row] + 0.7, row, text, color=theme.ink, va="center", fontsize=9.5)
    rows = ["average car", *(f"{name} {shown(car[name])}" for name in names), "this car"]
    axes.set_yticks(range(len(rows)), rows)
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlim=(min(ends) - 2, max(ends) + 5))
    axes.set_xlabel("miles per gallon")
    plain(axes, theme, "What each fact added, exactly")


def shown(value: object) -> str:
    """A cell in few letters."""
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def draw_backwards(axes: Axes, model: MaskedTable, theme: Theme) -> None:
    """Another column, given ranges of others."""
    answer = model.conditional("cylinders", given=BACKWARDS)
    chance = dict(zip(answer.labels("cylinders"), answer.probs("cylinders")[0], strict=True))
    names = ["4", "6", "8"]
    axes.bar(names, [chance[name] for name in names], color=COLORS[0], width=0.55, alpha=0.75)
    for place, name in enumerate(names):
        text = f"{100 * chance[name]:.0f} %"
        axes.text(place, chance[name] + 0.02, text, ha="center", color=theme.ink, fontsize=10)
    axes.set(ylim=(0, 1.15 * max(chance.values())), yticks=[])
    axes.set_xlabel("cylinders, given 1975 to 1979 and 18 to 22")
    plain(axes, theme, "The same fit, asked the other way")


def draw(model: MaskedTable, car: Mapping[str, object], theme: Theme) -> Figure:
    """All panels."""
    figure = Figure(figsize=(10.4, 5.0), layout="constrained", facecolor=theme.paper)
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
    panels = figure.subplot_mosaic("AB;AC", width_ratios=(1.35, 1), height_ratios=(1.5, 1))
    draw_densities(panels["A"], model, car, theme)
    draw_parts(panels["B"], model, car, theme)
    draw_backwards(panels["C"], model, theme)
    return figure


if __name__ == "__main__":
    cars, number = read_cars()
    # A quarter of the cars is kept out of the fit, ours among them.
    kept = np.random.default_rng(0).permutation(len(cars[MILES]))[98:]
    assert number not in kept
    model = MaskedTable(fast=True, progress=False).fit(
        {n: column[kept] for n, column in cars.items()}
    )
    for theme in THEMES:
        path = Path(__file__).parent / "images" / f"what-if-{theme.name}.png"
        draw(model, {name: column[number] for name, column in cars.items()}, theme).savefig(
            path, dpi=150
        )
