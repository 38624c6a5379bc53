import csv
import io

import numpy as np

USERS = ("anna", "bert", "carl", "dora", *(f"u{k}" for k in range(26)))
MOVIES = ("Alien", "Brazil", "Cabaret", "Dune", "Emma", "Fargo")
COLUMNS = ("--group", "user", "--order", "time", "--item", "movie")
STARS = ("--value", "stars", "--family", "ordinal(n=5, start=1)")
SMALL = ("--embed-dim", "4", "--head-dim", "2", "--n-layers", "1", "--head-hidden-dim", "4")
QUICK = (*SMALL, "--max-epochs", "2")


def ratings(seed=0):
    """Rows of user, movie, time, stars, in no order."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in USERS:
        movies = rng.choice(len(MOVIES), size=rng.integers(2, 6), replace=False)
        taste = rng.normal()
        for time, movie in enumerate(movies):
            stars = int(np.clip(round(3 + taste * (movie - 2.5) / 2), 1, 5))
            rows.append((user, MOVIES[movie], 10 * time, stars))
    return [rows[k] for k in rng.permutation(len(rows))]


def write_csv(path, rows, header=("user", "movie", "time", "stars")):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def table(text):
    """The rows of a CSV file, each by column."""
    return list(csv.DictReader(io.StringIO(text)))


def numbers(rows, name):
    """A column of such rows as numbers, empty cells as NaN."""
    return np.array([float(row[name]) if row[name] else np.nan for row in rows])
