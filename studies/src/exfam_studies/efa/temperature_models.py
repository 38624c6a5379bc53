"""Models of temperature fields: what was chosen for them, and what the paper prints of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exfam.fields import (
    FieldClimatology,
    FieldEFA,
    FieldGaussianProcess,
    FieldKriging,
    FieldLatentFactor,
    FieldRidge,
    FieldRidgeCovariance,
)
from exfam_studies.common.fits import Contender, fitter, training_of
from exfam_studies.common.harness import Options

# Chosen on validation, for both modes and all lags alike.
EFA_SETTINGS: dict[str, Any] = {"read_out_heads": 16, "null_token": False, "hide": 0.1}
# The paper's sizes and training, but for batches: a full one of its notebook needs more than 20 GB.
# Our layers have their norm before them, and keys made from each token alone.
PAPER_EFA_SETTINGS: dict[str, Any] = {
    "encoding": "none", "read_out_heads": 0, "null_token": False, "standardize": "global",
    "scale": "global", "embed_dim": 64, "n_heads": 2, "head_dim": 16,
    "feed_forward_dim": 64, "head_hidden_dim": 128, "hide": 0.0, "dropout": 0.0,
    "weight_decay": 0.0, "learning_rate": 1e-3, "batch_size": 32, "max_epochs": 150,
    "patience": 150,
}  # fmt: skip
# Chosen on validation, of all numbers of neighbors alike; values as they are, as in the paper.
LATENT_FACTOR_SETTINGS: dict[str, Any] = {
    "learning_rate": 3e-3, "max_epochs": 200, "batch_size": 64, "patience": 200
}  # fmt: skip
# How many were tried: of EFA by lags, of latent factors.
N_EFA, N_LATENT_FACTOR = {0: 33, 1: 36, 2: 36}, 6

# Section 6.4 and Figure 6, as the authors' notebooks record them: by layers, lags and neighbors.
PAPER_EFA = {1: 17.135, 2: 11.522, 4: 11.224}
PAPER_LAGS = {1: 9.248, 2: 10.420}
PAPER_FM = {
    1: 37.39, 2: 31.90, 3: 23.06, 4: 22.77, 5: 22.68, 10: 29.92, 15: 34.26, 20: 40.50, 25: 47.63,
    30: 52.71, 35: 60.98, 40: 75.55,
}  # fmt: skip
PAPER_TARGETS = 4092

MODES = ("efa-coordinates", "efa-site")
RIDGES = {"ridge": FieldRidge, "ridge-covariance": FieldRidgeCovariance}
# What is fitted with lags as well as without.
LAGGED = (*MODES, "efa-ensemble", *RIDGES, "gaussian-process")


def modes(options: Options, *, lags: int, n_targets: int) -> list[Contender]:
    """EFA by coordinates alone, and with a vector for each site; `n_targets` are those of test."""
    paper = {"mse": PAPER_LAGS[lags]} if lags else {}
    note = f"{n_targets:,} test targets, the paper's {PAPER_TARGETS:,}" if lags else ""
    by_coordinates, by_site = (
        attention(
            model,
            {**EFA_SETTINGS, "site_embedding": model == "efa-site", "lags": lags},
            options,
            n_configurations=N_EFA[lags],
        )
        for model in MODES
    )
    return [replace(by_coordinates, paper=paper, note=note), by_site]


def paper_forms(options: Options) -> list[Contender]:
    """The paper's own networks of 1, 2 and 4 layers, as near as our parts allow."""
    return [
        attention(
            f"efa-l{n_layers}",
            {**PAPER_EFA_SETTINGS, "n_layers": n_layers},
            options,
            paper={"mse": printed},
        )
        for n_layers, printed in PAPER_EFA.items()
    ]


def attention(
    model: str, parameters: Mapping[str, Any], options: Options, **more: Any
) -> Contender:
    """EFA with these parameters."""
    fit = fitter(FieldEFA, training_of(parameters, options))
    return Contender(model=model, fit=fit, **{"n_configurations": 1, **more})


def latent_factors(options: Options, *, neighbors: tuple[int, ...]) -> list[Contender]:
    """Latent factor models over that many of the nearest sites."""
    settings = training_of(LATENT_FACTOR_SETTINGS, options)
    return [
        Contender(
            model=f"latent-factor-k{k}",
            settings={"k": k},
            fit=fitter(FieldLatentFactor, {**settings, "k": k}),
            n_configurations=N_LATENT_FACTOR,
            paper={"mse": PAPER_FM[k]},
        )
        for k in neighbors
    ]


def baselines(*, lags: int = 0) -> list[Contender]:
    """Baselines in closed form, without chance.

    Ridges predict values as they are, with the penalty that is best on validation: of what was
    tried there, this did best.
    """
    kinds: list[tuple[str, Any, dict[str, Any]]] = [
        *((model, kind, {"lags": lags, "standardize": "none"}) for model, kind in RIDGES.items()),
        ("gaussian-process", FieldGaussianProcess, {"lags": lags}),
    ]
    if not lags:
        kinds += [
            ("kriging", FieldKriging, {}),
            ("climatology", FieldClimatology, {"standardize": "site"}),
            ("climatology", FieldClimatology, {"standardize": "seasonal"}),
        ]
    return [
        Contender(
            model=model,
            settings=parameters if model == "climatology" else {},
            fit=fitter(kind, parameters, validate=model in RIDGES),
            chance=False,
        )
        for model, kind, parameters in kinds
    ]
