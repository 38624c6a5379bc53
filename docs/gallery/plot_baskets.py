"""
Baskets: what is bought together
================================

Items of a basket, each given all others. We simulate a small shop in which bread calls for butter
and wine for cheese, fit a model of the items alone, and ask it what it has learned.
"""

import matplotlib.pyplot as plt
import numpy as np

from exfam import EFA, Marginal

rng = np.random.default_rng(0)
products = ["bread", "butter", "wine", "cheese", "milk", "eggs", "tea", "soap"]
partner = {"bread": "butter", "wine": "cheese"}

rows = {"basket": [], "product": []}
for basket in range(600):
    bought = list(rng.choice(products, size=rng.integers(1, 4), replace=False))
    bought += [partner[p] for p in bought if p in partner and rng.random() < 0.8]
    for product in dict.fromkeys(bought):
        rows["basket"].append(basket)
        rows["product"].append(product)

# %%
# No product occurs twice in a basket, so the support is exclusive: what a basket holds gets no
# probability. The score is the mean log-probability of an item given the rest of its basket, in
# nats.

first = np.searchsorted(rows["basket"], 500)
train = {name: column[:first] for name, column in rows.items()}
test = {name: column[first:] for name, column in rows.items()}
columns = {"group": "basket", "item": "product"}
model = EFA(**columns, max_epochs=15, progress=False).fit(train)
baseline = Marginal(**columns).fit(train)
print(f"attention {model.score(test):.3f} nats, frequencies alone {baseline.score(test):.3f} nats")

# %%
# What goes together: by how many nats two products make each other more likely.

for product in ("bread", "wine"):
    found = model.complements(product, k=2)
    print(
        product,
        [f"{name} {nats:+.2f}" for name, nats in zip(found.items, found.strength, strict=True)],
    )

# %%
# And what a basket of bread alone calls for next:

best = model.recommend({"basket": [0], "product": ["bread"]}, k=5)
figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
axes.barh(best.items[0][::-1], best.probabilities[0][::-1], color="#33658a")
axes.set_xlabel("probability of one more product")
axes.set_title("In a basket of bread")
plt.show()
