"""Baskets: what else would they buy?"""

import numpy as np

from exfam import EFA, Marginal

rng = np.random.default_rng(0)
meals = ["bread butter jam eggs coffee".split(), "tea milk cake sugar lemon".split()]
baskets = [rng.permutation(meals[number % 2])[:3].tolist() for number in range(200)]

model = EFA(group="receipt", item="product", progress=False).fit(baskets)
best = model.recommend(["bread", "jam"], k=3)
print(best)
best.plot().savefig("next.png")
alone = Marginal(group="receipt", item="product").fit(baskets)
print(f"{model.score(baskets):.2f} nats per product; {alone.score(baskets):.2f} by popularity")
