# %% temperatures of some places
import numpy as np

from exfam import FieldEFA, plots
from exfam.simulators import simulate_field

weather = simulate_field(8, 40, missing=0.1, seed=0).frame
model = FieldEFA(
    time="time",
    site="site",
    value="value",
    coordinates=["latitude", "longitude"],
    lags=1,
    max_epochs=2,
)
model.fit(weather)

# %% figure
predicted = model.predict_dist(weather)
last = slice(-8, None)
plots.field_map(model.site_coordinates_, predicted.mean[last], predicted.sd[last])

# %% figure
model.forecast(weather, steps=2, n=20).plot()

# %% figure
model.explain(weather.slice(0, 16))[0].plot()

# %% frame
table = model.forecast(weather, steps=2, n=20).to_frame()
assert table.num_rows == 16 and np.isfinite(table["mean"].to_numpy()).all()
model.forecast(weather, steps=2, n=20)
