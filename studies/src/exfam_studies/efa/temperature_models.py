"""Models of temperature fields: what was chosen for them, and what the paper prints of them."""

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

__all__ = [
    "LAGGED",
    "MODES",
    "PAPER_FM",
    "baselines",
    "defaults",
    "latent_factors",
    "modes",
    "paper_forms",
]

# Chosen on validation among N_CONFIGURATIONS, by mode and lags.
EFA_COMMON: dict[str, Any] = {"read_out_heads": 16, "null_token": False, "hide": 0.1}
EFA_SETTINGS: dict[tuple[str, int], dict[str, Any]] = {
    ("efa-coordinates", 0): EFA_COMMON,
    ("efa-coordinates", 1): EFA_COMMON,
    ("efa-coordinates", 2): EFA_COMMON,
    ("efa-site", 0): EFA_COMMON,
    ("efa-site", 1): EFA_COMMON,
    ("efa-site", 2): EFA_COMMON,
}
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
# How many were tried; None where nobody counted.
N_CONFIGURATIONS: dict[tuple[str, int], int | None] = {
    ("efa-coordinates", 0): 33,
    ("efa-coordinates", 1): 36,
    ("efa-coordinates", 2): 36,
    ("efa-site", 0): 33,
    ("efa-site", 1): 36,
    ("efa-site", 2): 36,
    ("paper-efa", 0): 1,
    ("latent-factor", 0): 6,
}

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
    return [_mode(model, options, lags=lags, n_targets=n_targets) for model in MODES]


def _mode(model: str, options: Options, *, lags: int, n_targets: int) -> Contender:
    by_site = model == "efa-site"
    parameters = {**EFA_SETTINGS[model, lags], "site_embedding": by_site, "lags": lags}
    printed = bool(lags) and not by_site
    return Contender(
        model=model,
        fit=fitter(FieldEFA, training_of(parameters, options)),
        n_configurations=N_CONFIGURATIONS[model, lags],
        paper={"mse": PAPER_LAGS[lags]} if printed else {},
        note=f"{n_targets:,} test targets, the paper's {PAPER_TARGETS:,}" if printed else "",
    )


def defaults(options: Options, *, lags: int) -> Contender:
    """EFA as it comes."""
    fit = fitter(FieldEFA, training_of({"lags": lags}, options))
    return Contender(model="efa-defaults", fit=fit, n_configurations=1)


def paper_forms(options: Options) -> list[Contender]:
    """The paper's own networks of 1, 2 and 4 layers, as near as our parts allow."""
    return [
        Contender(
            model=f"efa-l{n_layers}",
            fit=fitter(
                FieldEFA, training_of({**PAPER_EFA_SETTINGS, "n_layers": n_layers}, options)
            ),
            n_configurations=N_CONFIGURATIONS["paper-efa", 0],
            paper={"mse": printed},
        )
        for n_layers, printed in PAPER_EFA.items()
    ]


def latent_factors(options: Options, *, neighbors: tuple[int, ...]) -> list[Contender]:
    """Latent factor models over that many of the nearest sites."""
    return [
        Contender(
            model=f"latent-factor-k{k}",
            settings={"k": k},
            fit=fitter(FieldLatentFactor, training_of({**LATENT_FACTOR_SETTINGS, "k": k}, options)),
            n_configurations=N_CONFIGURATIONS["latent-factor", 0],
            paper={"mse": PAPER_FM[k]},
        )
        for k in neighbors
    ]


def baselines(*, lags: int = 0) -> list[Contender]:
    """Baselines in closed form, without chance.

    Ridges predict values as they are, with the penalty that is best on validation: of what was
    tried there, this did best.
    """
    ridges = [
        _closed(model, kind, sees_validation=True, lags=lags, standardize="none")
        for model, kind in RIDGES.items()
    ]
    lagged = [*ridges, _closed("gaussian-process", FieldGaussianProcess, lags=lags)]
    if lags:
        return lagged
    climatologies = [
        replace(
            _closed("climatology", FieldClimatology, standardize=kind),
            settings={"standardize": kind},
        )
        for kind in ("site", "seasonal")
    ]
    return [*lagged, _closed("kriging", FieldKriging), *climatologies]


def _closed(
    model: str, kind: Any, *, sees_validation: bool = False, **parameters: Any
) -> Contender:
    fit = fitter(kind, parameters, validate=sees_validation)
    return Contender(model=model, fit=fit, chance=False)
