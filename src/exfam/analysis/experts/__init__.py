"""Fitted models as mixtures of experts: exact weights and contributions, and whether they tell."""
