"""Stations: what would a sensor here have measured?"""

from exfam import FieldEFA, FieldKriging
from exfam.simulators import simulate_field

weather = simulate_field(8, 60, missing=0.1, seed=0).frame
columns = {"time": "time", "site": "site", "value": "value"}
columns["coordinates"] = ["latitude", "longitude"]
for model in FieldKriging(**columns), FieldEFA(**columns, progress=False):
    model.fit(weather)
    print(f"{type(model).__name__}: {model.score(weather):.2f} nats per value")
print(model.gain_)  # what attention added to the simple model inside
here = model.predict_dist(weather, at=[[40.0, -95.0]])  # no station there
low, high = here.interval(0.8)
print(f"at the last time {here.center[-1]:.1f}, 80 % in {low[-1]:.1f} to {high[-1]:.1f}")
