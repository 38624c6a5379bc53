"""
Ratings: predictions with intervals
===================================

Each rating given the movie and the user's other ratings. Ratings are ordered categories, so the
family is ordinal and the prediction is a whole distribution: means, intervals and probabilities
come from it.
"""

import matplotlib.pyplot as plt
import numpy as np

from exfam import EFA, LatentFactor, Ordinal
from exfam.plots import attention_map

rng = np.random.default_rng(0)
user, movie = np.divmod(rng.permutation(200 * 12)[:1600], 12)
taste = rng.normal(size=200)[user] * np.linspace(-2, 2, 12)[movie]
stars = np.clip(np.round(3.2 + taste + 0.7 * rng.normal(size=1600)), 1, 5).astype(int)
ratings = {"user": user, "movie": movie, "stars": stars}
old = {name: column[user < 160] for name, column in ratings.items()}
new = {name: column[user >= 160] for name, column in ratings.items()}

# %%
# New users are predicted from the ratings that they have given, without fitting anew.

columns = {"group": "user", "item": "movie", "value": "stars"}
family = Ordinal(5, start=1)
model = EFA(**columns, parts="values", family=family, batch_size=8, progress=False).fit(old)
baseline = LatentFactor(**columns, parts="values", family=family, dim=0).fit(old)
for name, each in {"attention": model, "levels alone": baseline}.items():
    error = np.mean((each.predict(new) - new["stars"]) ** 2)
    print(f"{name}: mean squared error {error:.3f}")

# %%
# Intervals hold what they promise: of the 80 % intervals, at least 80 % contain the rating
# (ratings are whole numbers, so an interval of exactly 80 % seldom exists).

low, high = model.predict(new, interval=0.8).T
inside = (low <= new["stars"]) & (new["stars"] <= high)
print(f"{inside.mean():.0%} of the ratings lie in their 80 % intervals")

# %%
# Three predictions as they are: the probability of each number of stars. Titles say what was given.

chance = model.predict_proba(new, of="stars")
figure, panels = plt.subplots(1, 3, figsize=(7, 3), sharey=True, layout="constrained")
for row, axes in enumerate(panels):
    axes.bar(range(1, 6), chance[row], color="#2f7ed8")
    axes.set_title(f"movie {new['movie'][row]}: {new['stars'][row]} stars given")
    axes.set_xlabel("stars")
panels[0].set_ylabel("probability")
plt.show()

# %%
# Which of the user's ratings counted for which:

one = {name: column[new["user"] == new["user"][0]] for name, column in new.items()}
plt.figure(attention_map(model.explain(one)[0]))
plt.show()
