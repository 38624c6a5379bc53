"""Draws the picture of README.md: python docs/picture.py."""

from pathlib import Path

from exfam.cli.demonstration import draw_ratings, fit_all, picture_of_means

if __name__ == "__main__":
    draw = draw_ratings(0)
    results = fit_all(draw, seed=0, max_epochs=15)
    path = Path(__file__).parent / "images" / "predicted-means.png"
    picture_of_means(results, draw).savefig(path, dpi=120)
