"""
Tables: what each cell said
===========================

Each cell of a row is predicted from the others that are there, by linear predictors and boosted
trees (and, without `fast=True`, a small network) that are pooled by the share of missing cells. We
draw what each cell of one row added to a prediction, the same of the attention network of the
paper, an exact mixture of experts, and how predictions bear more and more missing cells.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

from exfam import MaskedTableClassifier
from exfam.plots import expert_bars, missing_curves

LABELS = ["poor", "fair", "good"]


def simulate_cars(n, seed):
    """Used cars; their condition follows from kilometers and accidents alone."""
    random = np.random.default_rng(seed)
    age = random.gamma(3.0, 2.5, n).round(1)
    km = (14.0 * age * random.lognormal(0.0, 0.3, n)).round()
    accidents = random.poisson(0.1 + 0.004 * km)
    price = np.exp(3.3 - 0.1 * age - 0.002 * km - 0.15 * accidents + random.normal(0, 0.1, n))
    wear = km / 80 + accidents + random.normal(0.0, 0.7, n)
    table = pd.DataFrame({"age": age, "km": km, "accidents": accidents, "price": price.round(1)})
    return table, np.array(LABELS)[2 - np.digitize(wear, [1.2, 2.6])]


cars, condition = simulate_cars(800, seed=0)
new, truth = simulate_cars(1000, seed=1)

# %%
# A fit hides cells of its rows by itself, so that the model knows what to say of few. Boosted trees
# take missing cells as well, if they were fitted to rows that lack some: we fit one to whole rows,
# and one to rows of which half the cells are hidden.

kinds, response = {"condition": LABELS}, pd.Series(condition, name="condition")
model = MaskedTableClassifier(fast=True, kinds=kinds, progress=False).fit(cars, response)
attention = MaskedTableClassifier(
    base="none", ordinal=True, extra_masking=1.0, max_epochs=15, kinds=kinds, progress=False
).fit(cars, response)
random = np.random.default_rng(0)
trees = {
    "trees, whole rows": cars,
    "trees, holes in training": cars.mask(random.random(cars.shape) < 0.5),
}
trees = {
    name: HistGradientBoostingClassifier(max_iter=40, random_state=0).fit(rows, condition)
    for name, rows in trees.items()
}

# %%
# One car. Bars are what each cell adds to the log-probability of each label, beside those of an
# average car; the last group is what has no exact parts, here the scores of ordered labels.

row = int(np.argmax(new["accidents"]))
why = model.experts(new.iloc[[row]])
parts = np.vstack([why.parts[0, 0, : len(new.columns)], why.rest[0, 0]])
figure, axes = plt.subplots(figsize=(7, 3.5))
for k, label in enumerate(LABELS):
    axes.barh(np.arange(len(parts)) + 0.25 * (1 - k), parts[:, k], height=0.25, label=label)
axes.set_yticks(
    range(len(parts)), [*(f"{name} = {value:g}" for name, value in new.iloc[row].items()), "rest"]
)
axes.invert_yaxis()
axes.axvline(0.0, color="gray", linewidth=0.8)
axes.set_xlabel("added to the log-probability, less the mean over labels")
axes.legend()
figure.tight_layout()
plt.show()

# %%
# The attention network has weights, which sum to 1, and experts: bars at the right are what each
# cell adds to the logit of each label, less what it adds to all of them alike, and their sums are
# the logits, up to a constant. The cell of the response is its MASK token: what the network says of
# a car of which it knows nothing.

why = attention.experts(new.iloc[[row]])
cells = [*(f"{name} = {value:g}" for name, value in new.iloc[row].items()), "condition = ?"]
parts = why.parts[0, 0][:, : len(LABELS)]
plt.figure(expert_bars(cells, why.weights[0, 0].mean(0), parts, outputs=LABELS))
plt.show()

# %%
# Cells of the new rows are hidden at random.

shares = np.array([0.0, 0.1, 0.3, 0.5, 0.7])
scores = {name: [] for name in ("masked table", "attention network", *trees)}
for share in shares:
    seen = new.mask(np.random.default_rng(1).random(new.shape) < share)
    scores["masked table"].append(model.score(seen, truth))
    scores["attention network"].append(attention.score(seen, truth))
    for name, each in trees.items():
        scores[name].append(each.score(seen, truth))
most = np.mean(truth == pd.Series(condition).mode()[0])
plt.figure(
    missing_curves(
        shares,
        {name: np.array(each) for name, each in scores.items()},
        metric="accuracy on 1,000 new cars",
        references={"most frequent label": float(most)},
    )
)
plt.show()
