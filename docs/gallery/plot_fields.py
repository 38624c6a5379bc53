"""
Fields: maps of what is not measured
====================================

Values at places and times: each is predicted from the others on its map and on the map before.
We simulate weather at 20 stations, of which a seventh of the values is missing, fit spatiotemporal
attention, and draw what it says: means with their standard deviations, what a station attends to,
whether its intervals hold what they promise, and where it is least sure.
"""

import matplotlib.pyplot as plt
import numpy as np

from exfam import FieldEFA, FieldKriging
from exfam.plots import coverage_curve, crps_by_site, field_map, site_attention_map
from exfam.simulators import simulate_field

n_sites, n_old = 20, 260
field = simulate_field(n_sites, 300, season=0.0, missing=0.15, seed=0)
frame = field.frame.to_pandas()
old, new = frame[: n_old * n_sites], frame[n_old * n_sites :]
truth = field.complete[n_old:].ravel()

# %%
# Kriging is the baseline: one variogram for all maps, and no earlier map. Scores are nats
# per value, each given the others.

columns = {
    "time": "time", "site": "site", "coordinates": ["latitude", "longitude"], "value": "value"
}  # fmt: skip
model = FieldEFA(**columns, lags=1, progress=False).fit(old)
kriging = FieldKriging(**columns).fit(old)
print(f"attention {model.score(new):.3f} nats, kriging {kriging.score(new):.3f} nats")

# %%
# The last map, predicted on a grid of places without stations. Dots are the stations with a value
# on that day: the standard deviation grows with the distance from them.

latitude, longitude = np.meshgrid(np.linspace(26, 48, 23), np.linspace(-123, -68, 45))
grid = np.stack([latitude.ravel(), longitude.ravel()], axis=1)
days = new[-2 * n_sites :]
dist = model.predict_dist(days, at=grid)
last = slice(len(grid), None)
seen = days[n_sites:].dropna()[["latitude", "longitude"]].to_numpy()
plt.figure(field_map(grid, dist.mean[last], dist.sd[last], observed=seen, unit="°F"))
plt.show()

# %%
# What a station attended to, of all stations near it with a value on that day and on the day
# before: the mean over heads of what corrects the base.

why = model.explain(days)[-1]
station = 8
weights = [why.attention[0][:, station, why.steps_back == back] for back in (0, 1)]
names = why.site[why.steps_back == 0].tolist()
stations = why.coordinates[why.steps_back == 0]
plt.figure(site_attention_map(stations, np.stack(weights, axis=1), station, names=names))
plt.show()

# %%
# Of the values that were hidden from the model, how many lie inside its intervals? On the line if
# it is calibrated.

dist = model.predict_dist(new)
hidden = new.value.isna().to_numpy()
plt.figure(coverage_curve(dist.pit(truth)[hidden]))
plt.show()

# %%
# The continuous ranked probability score by station, in the unit of the values: large where few
# stations are near.

by_site = dist.crps(truth).reshape(-1, n_sites).mean(axis=0)
plt.figure(crps_by_site(stations, by_site, names, unit="°F"))
plt.show()
