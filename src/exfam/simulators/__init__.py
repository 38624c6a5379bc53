"""Data whose truth is known: ratings, baskets, communities, fields, events."""

from exfam.simulators.basket_draws import SimulatedBaskets, simulate_baskets, write_baskets
from exfam.simulators.baskets import BasketProcess, BasketSettings, draw_process
from exfam.simulators.communities import SimulatedCommunity, simulate_community
from exfam.simulators.events import HawkesProcess, SimulatedEvents, simulate_hawkes
from exfam.simulators.fields import (
    FieldProcess,
    SimulatedField,
    simulate_counts,
    simulate_field,
)
from exfam.simulators.ratings import (
    RATING_CASES,
    ratings_cases,
    ratings_true_means,
    simulate_ratings,
)

__all__ = [
    "RATING_CASES",
    "BasketProcess",
    "BasketSettings",
    "FieldProcess",
    "HawkesProcess",
    "SimulatedBaskets",
    "SimulatedCommunity",
    "SimulatedEvents",
    "SimulatedField",
    "draw_process",
    "ratings_cases",
    "ratings_true_means",
    "simulate_baskets",
    "simulate_community",
    "simulate_counts",
    "simulate_field",
    "simulate_hawkes",
    "simulate_ratings",
    "write_baskets",
]
