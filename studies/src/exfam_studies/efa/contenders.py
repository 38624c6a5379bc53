"""Models that the experiments on items and ratings share: EFA, latent factors, closed forms."""

from collections.abc import Mapping
from typing import Any

from exfam.efa.efa import EFA
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.latent_factor import LatentFactor
from exfam.groups import Groups
from exfam_studies.common.fits import Contender, fitter, training_of
from exfam_studies.common.harness import Options

Settings = Mapping[str, Any]
# The paper's model has no other model inside.
PAPER: Settings = {"base": "none"}
DIRECTIONS = ("bidirectional", "causal")
# Of the forms of latent factor models, the one whose figures the paper prints, and ours.
NOTEBOOK, OWN = "latent-factor-notebook", "latent-factor"
# The notebooks' means over the context; the paper's formulas, which divide by the group's final
# length minus 1; ours. All are of raw values, as the paper's.
VALUE_FORMS: dict[str, Settings] = {
    NOTEBOOK: {**PAPER, "pooling": "mean", "intercept": False},
    "latent-factor-printed": {**PAPER, "pooling": "paper", "intercept": False},
    OWN: {**PAPER, "pooling": "mean", "intercept": True},
}


def closed_form(model: str, kind: Any, parameters: Settings, *, where: Settings) -> Contender:
    """A model without chance; `where` is what its rows say of the data."""
    return Contender(model=model, settings=where, fit=fitter(kind, parameters), chance=False)


def attention(
    model: str, parameters: Settings, options: Options, *, where: Settings, **more: Any
) -> Contender:
    """EFA with these parameters; all but its defaults also as ensembles."""
    return Contender(
        model=model,
        settings=where,
        fit=fitter(EFA, training_of({**PAPER, **parameters}, options)),
        ensemble=model != "efa-defaults",
        **{"n_configurations": 1, **more},
    )


def latent_factors(
    forms: Mapping[str, Settings],
    options: Options,
    *,
    where: Settings,
    own: Settings,
    n_own: int,
    plain: Settings,
    paper: Mapping[str, float] | None,
) -> list[Contender]:
    """Our form with the `own` parameters, chosen among `n_own`, and the paper's with `plain` ones.

    `paper`: the figures of the notebook's form; None where the paper's forms are left out
    """
    return [
        Contender(
            model=model,
            settings=where,
            fit=fitter(
                LatentFactor, training_of({**(own if model == OWN else plain), **form}, options)
            ),
            n_configurations=n_own if model == OWN else 1,
            paper=paper if model == NOTEBOOK and paper else {},
        )
        for model, form in forms.items()
        if paper is not None or model == OWN
    ]


def nats(estimator: GroupEstimator, groups: Groups) -> dict[str, float]:
    """Negative log-likelihood of an element, in nats."""
    return {"nats": -estimator.score(groups)}
