"""Ratings: how many stars will they give?"""

import numpy as np

from exfam import EFA, Marginal, Ordinal

rng = np.random.default_rng(0)
user, movie = np.divmod(rng.permutation(200 * 12)[:1600], 12)
taste = rng.normal(size=200)[user] * np.linspace(-2, 2, 12)[movie]
stars = np.clip(np.round(3.2 + taste + 0.7 * rng.normal(size=1600)), 1, 5).astype(int)
old, new = (
    {"user": user[rows], "movie": movie[rows], "stars": stars[rows]}
    for rows in (user < 160, user >= 160)
)

columns = {"group": "user", "item": "movie", "value": "stars", "family": Ordinal(5, start=1)}
model = EFA(**columns, parts="values", progress=False).fit(old)
alone = Marginal(**columns, parts="values").fit(old)
print(f"{model.score(new):.2f} nats per rating of new users; {alone.score(new):.2f} by movie alone")
print(model.predict_proba(new)[:3].round(2))  # a probability for each number of stars
why = model.explain_value(new, rows=[0])  # what each other rating added, exactly
for name, added in zip(why.names, why.to_center, strict=True):
    print(f"{name:14}{added:+.2f} stars")
