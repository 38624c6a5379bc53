"""Small communities for tests."""

import numpy as np

from exfam.simulators import simulate_community

_COMMUNITY = simulate_community(40, 4, seed=3)
SPECIES = list(_COMMUNITY.species)
# Few enough sites that no correction is tried; one cell and one covariate are missing.
SITES = {name: np.array(column) for name, column in _COMMUNITY.columns("rainfall", "soil").items()}
SITES["rainfall"][5] = np.nan
SITES["species 2"] = np.where(np.arange(40) == 7, np.nan, SITES["species 2"])
