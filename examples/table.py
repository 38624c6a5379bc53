"""A table: any column from any others, with missing cells."""

import numpy as np

from exfam import Between, MaskedTable

rng = np.random.default_rng(0)
age, fuel = rng.gamma(3, 2.5, 400), rng.choice(["diesel", "electric", "petrol"], 400)
km = 14 * age * rng.lognormal(0, 0.3, 400)
price = 27 * np.exp(-0.1 * age - 0.002 * km + 0.3 * (fuel == "electric") + rng.normal(0, 0.1, 400))
cars = {"age": age, "km": np.where(rng.random(400) < 0.1, np.nan, km), "fuel": fuel, "price": price}

model = MaskedTable(fast=True, progress=False).fit(cars)
for given in {"age": 4.0}, {"age": 4.0, "km": 90.0}, {"age": 4.0, "km": 90.0, "fuel": "petrol"}:
    price = model.conditional("price", given=given).predict_dist("price")
    print(f"price {price.center[0]:.1f}, 80 % in {np.round(price.interval(0.8), 1).ravel()}", given)
which = model.conditional("fuel", given={"age": Between(3, 5), "price": Between(20, 30)})
print(dict(zip(which.labels("fuel"), which.probs("fuel")[0].round(2).tolist(), strict=True)))
filled = model.impute(cars).frame  # missing kilometers, each from the rest of its row
