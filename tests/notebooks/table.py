# %% a table of flats
import numpy as np
import polars as pl

from exfam import MaskedTableRegressor

rng = np.random.default_rng(0)
rooms, old = rng.integers(1, 6, 300), rng.random(300) < 0.4
rent = 200 + 180 * rooms - 120 * old + rng.normal(0, 60, 300)
flats = pl.DataFrame({"rooms": rooms, "old": old, "rent": rent})
model = MaskedTableRegressor(fast=True)
model.fit(flats.drop("rent"), flats["rent"])

# %% figure
model.explain(flats).plot()

# %% figure
model.experts(flats.head(5)).plot()

# %% frame
contributions = model.experts(flats.head(5)).to_frame()
assert isinstance(contributions, pl.DataFrame)
contributions

# %% figure
model.conditional(["rent", "old"], given={"rooms": 3}).plot()
