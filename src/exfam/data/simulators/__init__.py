"""Data whose truth is known: the paper's ratings, latent factor data, baskets."""

from exfam.data.simulators.basket_draws import SimulatedBaskets, simulate_baskets, write_baskets
from exfam.data.simulators.baskets import BasketProcess, BasketSettings, draw_process
from exfam.data.simulators.latent_factor import Simulated, simulate_latent_factor
from exfam.data.simulators.ratings import (
    RATING_CASES,
    ratings_cases,
    ratings_true_means,
    simulate_ratings,
)

__all__ = [
    "RATING_CASES",
    "BasketProcess",
    "BasketSettings",
    "Simulated",
    "SimulatedBaskets",
    "draw_process",
    "ratings_cases",
    "ratings_true_means",
    "simulate_baskets",
    "simulate_latent_factor",
    "simulate_ratings",
    "write_baskets",
]
