# %% what is bought together
import numpy as np
import pandas as pd

from exfam import EFA

rng = np.random.default_rng(0)
products = np.array(["bread", "butter", "wine", "cheese", "milk", "tea"])
bought = [rng.permutation(6)[: rng.integers(2, 5)] for _ in range(150)]
sizes = [len(basket) for basket in bought]
baskets = pd.DataFrame(
    {"basket": np.repeat(np.arange(150), sizes), "product": products[np.concatenate(bought)]}
)
model = EFA(group="basket", item="product", embed_dim=8, max_epochs=2)
model.fit(baskets)

# %% figure
model.recommend(baskets.head(12), k=3).plot()

# %% frame
recommended = model.recommend(baskets.head(12), k=3).to_frame()
assert isinstance(recommended, pd.DataFrame)
recommended

# %% pyplot is imported from here on, and figures are shown once all the same
import matplotlib.pyplot as plt

from exfam import plots

# %% figure
plots.learning_curve(model.history_)

# %% figure
whole, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
model.history_.plot(ax=left)
model.complements("tea", k=4).plot(ax=right)

# %% figure
model.explain(baskets.head(8))[0].plot()

# %% frame
model.complements("tea", k=4)
