"""
Communities: who occurs with whom
=================================

Many species at many sites: each is predicted from the site's covariates and from any others that
were seen there. What covariates leave unexplained are associations, with intervals.
"""

import matplotlib.pyplot as plt

from exfam import Community
from exfam.plots import association_map
from exfam.simulators import simulate_community

truth = simulate_community(300, 12, strength=1.5, seed=0)
sites = truth.columns("rainfall", "altitude", "soil")
model = Community(species=truth.species, correction=False).fit(sites)

# %%
# Blue: found together more often than rain, altitude and soil explain. Orange: less often. Gray:
# the interval of the correlation holds 0.

together = model.associations()
plt.figure(association_map(together.correlation, together.species, clear=together.is_clear))
plt.show()
