"""
Order: when the context that matters is the neighbor
====================================================

Ratings of five movies simulated as in the paper: the mean of a rating depends on which movie was
watched just before. A latent factor model gives all of the context equal weight and cannot see
it; attention with positions can.
"""

import matplotlib.pyplot as plt

from exfam.cli.demonstration import draw_ratings, fit_all, picture_of_means

draw = draw_ratings(0)
results = fit_all(draw, seed=0, max_epochs=6)
for result in results:
    print(f"{result.name:>16} ({result.direction}): mean squared error {result.mse:.3f}")

# %%
# The means that two models predict, beside the true ones:

plt.figure(picture_of_means(results, draw))
plt.show()
