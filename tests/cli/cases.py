import csv

import numpy as np

USERS = ("anna", "bert", "carl", "dora", *(f"u{k}" for k in range(26)))
MOVIES = ("Alien", "Brazil", "Cabaret", "Dune", "Emma", "Fargo")
COLUMNS = ("--group", "user", "--order", "time", "--item", "movie")
SMALL = ("--embed-dim", "4", "--head-dim", "2", "--n-layers", "1", "--head-hidden-dim", "4")


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
    return [rows[place] for place in rng.permutation(len(rows))]


def write_csv(path, rows, header=("user", "movie", "time", "stars")):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path
