"""Reports about models of communities: which species are where, and with whom."""

from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from exfam.estimator.gain import gain_sentences
from exfam.plots.communities import association_map
from exfam.plots.style import make_figure
from exfam.report import cautions
from exfam.report.contents import ReportContent, ReportRequest
from exfam.report.page import Facts, Picture, Section, Summary, TableData, left_out
from exfam.report.verdicts import with_error
from exfam.report.words import clean, figure, percent, quantity
from exfam.scores.metrics import mean_over_groups

_SPECIES, _SHARES, _PAIRS = "Species", "Knowing the others", "Who occurs with whom"
_KNOWN = (0.0, 0.25, 0.5, 0.75, 1.0)
_LISTED, _MOST_PAIRS, _MOST_SITES = 40, 12, 2000
# Species of the picture, and of that for a phone.
_DRAWN, _NARROW = 16, 6


def community_report(model: Any, request: ReportRequest) -> ReportContent:
    """The page about a model of a community."""
    model._check_fitted()
    sites = None if request.data is None else _some(model, request)
    n_species = len(model.species_)
    lead = f"{type(model).__name__} of {n_species:,} species"
    if sites is None:
        lead, scores = f"{lead}, without data.", None
    else:
        scores = [_nats(model, sites, share, seed=request.seed) for share in (0.0, 1.0)]
        lead = f"{lead}, on {quantity(len(scores[0]), 'site')} of data."
    return ReportContent(
        lead,
        _summary(model, scores),
        [
            _species_section(model, scores),
            _share_section(model, sites, seed=request.seed),
            _pair_section(model),
        ],
    )


def _some(model: Any, request: ReportRequest) -> tuple[Any, np.ndarray]:
    """Covariates and species of the sites, or of a random sample of them."""
    inputs, value = model._scored(request.data, None)
    rows = np.arange(len(value))
    if len(rows) > _MOST_SITES:
        drawn = np.random.default_rng(request.seed).permutation(len(rows))[:_MOST_SITES]
        rows = np.sort(drawn)
    return inputs[rows], value[rows]


def _nats(
    model: Any, sites: tuple[Any, np.ndarray], share: float, *, seed: int
) -> Float[np.ndarray, "sites species"]:
    """log p of each cell given a share of the other species of its site."""
    nats: np.ndarray = model._log_probs(*sites, share, seed)
    return nats


def _estimate(nats: np.ndarray) -> str:
    """The mean over all cells; sites are independent, species at a site are not."""
    there = ~np.isnan(nats)
    site = np.broadcast_to(np.arange(len(nats))[:, None], nats.shape)
    return with_error(mean_over_groups(nats[there], site[there]))


def _summary(model: Any, scores: list[np.ndarray] | None) -> Summary:
    said = " ".join(gain_sentences(model)) or "No correction of the base was tried."
    if scores is None:
        unknown = "Not known: no data were given to score the model on."
        return Summary(quality=unknown, against="Nothing: there are no data.", attention=said)
    alone, given = scores
    gained = given - alone
    return Summary(
        quality=f"{_estimate(given)} nats for a species at a site, given all other species there "
        "(log-likelihood; higher is better).",
        against=f"Covariates alone have {_estimate(alone)} nats: knowing the other species adds "
        f"{_estimate(gained)}.",
        attention=said,
        careful=list(filter(None, [cautions.of_few(len(given), "site")])),
    )


def _species_section(model: Any, scores: list[np.ndarray] | None) -> Section:
    """Nats of each species, by covariates alone and given the others."""
    facts = Facts([("species", f"{len(model.species_):,}"), ("family", clean(model.family_))])
    if scores is None:
        return Section(_SPECIES, parts=[facts])
    alone, given = scores
    rows, gains = [], []
    for k, name in enumerate(model.species_[:_LISTED]):
        there = ~np.isnan(given[:, k])
        if there.any():
            pair = [float(nats[there, k].mean()) for nats in (alone, given)]
            rows.append([clean(name, most=40), f"{there.sum():,}", *map(figure, pair)])
            gains.append(pair[1] - pair[0])
    most = max(gains, default=0.0) or 1.0
    table = TableData(
        ["species", "sites", "alone", "given others"],
        rows,
        words=["species"],
        shares={"given others": [max(gain / most, 0.0) for gain in gains]},
        caption="Nats at a site: by covariates alone, and given all other species there; the bar "
        "is what these add.",
    )
    return Section(_SPECIES, parts=[facts, table])


def _share_section(model: Any, sites: tuple[Any, np.ndarray] | None, *, seed: int) -> Section:
    """The score by the share of the other species that is known."""
    if sites is None:
        return left_out(_SHARES, "no data were given to score the model on.")
    rows = [
        [percent(share, 0), _estimate(_nats(model, sites, share, seed=seed))] for share in _KNOWN
    ]
    table = TableData(["others known", "nats"], rows)
    text = ["Mean nats of a species at a site, by how many of the others there are known."]
    return Section(_SHARES, text=text, parts=[table])


def _pair_section(model: Any) -> Section:
    """The strongest correlations of what covariates leave unexplained."""
    if len(model.species_) < 2:
        return left_out(_PAIRS, "there is one species alone.")
    associations = model.associations()
    pairs = associations.pairs(_MOST_PAIRS)
    clear = int(np.triu(associations.is_clear, 1).sum())
    rows = [
        [f"{clean(a, most=28)} and {clean(b, most=28)}", figure(r, 2),
         f"{figure(low, 2)} to {figure(high, 2)}"]
        for a, b, r, low, high in pairs
    ]  # fmt: skip
    n = len(model.species_)
    text = [
        "Correlations of what covariates leave unexplained: who occurs with whom where covariates "
        f"are alike, not why. {clear:,} of {n * (n - 1) // 2:,} pairs are clear of 0."
    ]
    marked = [k for k, (_, _, _, low, high) in enumerate(pairs) if low > 0 or high < 0]
    table = TableData(
        ["pair", "correlation", "95 %"], rows, words=["pair"], marked=marked,
        title="The strongest pairs",
    )  # fmt: skip
    return Section(_PAIRS, text=text, parts=[_map(model, associations, pairs), table])


def _map(model: Any, associations: Any, pairs: list[Any]) -> Picture:
    """Of the species of the strongest pairs."""
    index = {name: k for k, name in enumerate(model.species_)}
    strongest = list(dict.fromkeys(index[name] for a, b, *_ in pairs for name in (a, b)))

    def drawn(most: int, width: float) -> Figure:
        own = np.sort(strongest[:most])
        square = np.ix_(own, own)
        names = [str(model.species_[k]) for k in own]
        figure = make_figure(width=width, height=0.8 * width)
        association_map(
            associations.correlation[square],
            names,
            clear=associations.is_clear[square],
            label="correlation",
            ax=figure.subplots(),
        )
        return figure

    return Picture(
        "Species that occur together (blue) or avoid each other (orange)",
        drawn(_DRAWN, 7.6),
        "Gray dots are pairs that are not clear of 0.",
        narrow=drawn(_NARROW, 4.5),
    )
