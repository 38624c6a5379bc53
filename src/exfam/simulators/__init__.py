"""Data whose truth is known: ratings, latent factors, attention, baskets, fields, tables."""

from exfam.simulators.attention import AttentionProcess, draw_attention_process
from exfam.simulators.basket_draws import SimulatedBaskets, simulate_baskets, write_baskets
from exfam.simulators.baskets import BasketProcess, BasketSettings, draw_process
from exfam.simulators.field_draws import (
    SimulatedCounts,
    SimulatedField,
    simulate_counts,
    simulate_field,
)
from exfam.simulators.field_processes import FieldSettings, Regimes, draw_field_process
from exfam.simulators.fields import FieldConditional, FieldProcess
from exfam.simulators.latent_factor import Simulated, simulate_latent_factor
from exfam.simulators.ratings import (
    RATING_CASES,
    ratings_cases,
    ratings_true_means,
    simulate_ratings,
)
from exfam.simulators.tables import ShiftedTables, simulate_shifted_tables

__all__ = [
    "RATING_CASES",
    "AttentionProcess",
    "BasketProcess",
    "BasketSettings",
    "FieldConditional",
    "FieldProcess",
    "FieldSettings",
    "Regimes",
    "ShiftedTables",
    "Simulated",
    "SimulatedBaskets",
    "SimulatedCounts",
    "SimulatedField",
    "draw_attention_process",
    "draw_field_process",
    "draw_process",
    "ratings_cases",
    "ratings_true_means",
    "simulate_baskets",
    "simulate_counts",
    "simulate_field",
    "simulate_latent_factor",
    "simulate_ratings",
    "simulate_shifted_tables",
    "write_baskets",
]
