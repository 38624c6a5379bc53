"""
Tables: what each cell said
===========================

Each cell of a row is predicted from the others that are there. One layer of attention without layer
norm is an exact mixture of experts, one per cell: we draw what those of one row predicted, and how
predictions bear it when more and more cells are missing.
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
# With `extra_masking=1.0` a fit hides any share of each row's other cells, so that the model knows
# what to say of few. Boosted trees take missing cells as well, if they have met them: we fit one to
# whole rows, and one to rows of which half the cells are hidden.

model = MaskedTableClassifier(
    base="none",
    kinds={"condition": LABELS},
    ordinal=True,
    extra_masking=1.0,
    max_epochs=15,
    progress=False,
).fit(cars, pd.Series(condition, name="condition"))
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
# One car. Weights sum to 1; bars at the right are what each cell adds to the logit of each label,
# less what it adds to all of them alike, and their sums are the logits, up to a constant. The cell
# of the response is its MASK token: what the model says of a car of which it knows nothing.

row = int(np.argmax(new["accidents"]))
why = model.experts(new.iloc[[row]])
cells = [*(f"{name} = {value:g}" for name, value in new.iloc[row].items()), "condition = ?"]
parts = why.parts[0, 0][:, : len(LABELS)]
plt.figure(expert_bars(cells, why.weights[0, 0].mean(0), parts, outputs=LABELS))
plt.show()

# %%
# Cells of the new rows are hidden at random.

shares = np.array([0.0, 0.1, 0.3, 0.5, 0.7])
scores = {name: [] for name in ("masked table", *trees)}
for share in shares:
    seen = new.mask(np.random.default_rng(1).random(new.shape) < share)
    scores["masked table"].append(model.score(seen, truth))
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
