"""The Community estimator: many species at sites, from covariates and any of the other species."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam.checks import DataError, ExfamError, check_seed, check_whole, shown
from exfam.estimator.base import Declared, Estimator, attribute, parameter
from exfam.estimator.file_parameters import FileDialect
from exfam.estimator.gain import Gain
from exfam.estimator.record import recorded
from exfam.estimator.rules import (
    SEED,
    Choice,
    ColumnName,
    ColumnNames,
    Flag,
    OrNone,
    OrWord,
    check_distinct,
    listed,
)
from exfam.tables.community.association import known_at
from exfam.tables.community.community_answers import (
    Associations,
    CommunityExplanation,
    CommunityPrediction,
    associations_of,
    check_share,
    explained_cells,
    species_indices,
)
from exfam.tables.community.community_data import (
    FAMILIES,
    SpeciesTable,
    match_known,
    read_sites,
    read_species,
    without,
)
from exfam.tables.community.community_fit import CommunityPlan, fit_community
from exfam.tables.community.community_model import (
    FittedCommunity,
    SiteInputs,
    chain_draw,
    community_log_prob,
    orders_of,
)
from exfam.tables.data.frames import RawTable
from exfam.tables.data.table_files import read_marked, table_of

SHARES_KNOWN = (0.0, 0.25, 0.5, 0.75, 1.0)


class CommunityColumns(FileDialect, section="Columns of `X`"):
    """What the columns of a table of sites are."""

    species: Any = parameter(
        OrNone(ColumnNames()),
        "columns of `X` that are species; None where they are given apart, as `Y`",
        default=None,
    )
    coordinates: Any = parameter(
        OrNone(ColumnNames()),
        "columns of coordinates or times, in one unit, over which each species has a smooth "
        "surface if validation finds that it helps; they are no covariates",
        default=None,
    )
    effort: str | None = parameter(
        OrNone(ColumnName()),
        "the column of the effort at each site, such as hours: the log of it is added to `eta`",
        default=None,
    )
    blocks: str | None = parameter(
        OrNone(ColumnName()),
        "the column whose values are held out together, neighboring ones too, where all is chosen: "
        "a year, if later years are to be predicted, or a region; it stays a covariate",
        default=None,
    )


class CommunityModelParameters(Declared, section="Model"):
    """What is fitted."""

    family: str = parameter(
        OrWord("auto", Choice(FAMILIES)),
        '"presence" (whether a value is above 0), "count" (negative binomial), "hurdle" (presence, '
        'and counts where present), "cover" (presence, and shares in (0, 1] where present), or '
        '"auto": what the values are, and for counts what held-out sites choose',
        default="auto",
    )
    correction: bool = parameter(
        Flag(),
        "whether a network corrects the base, as far as held-out sites say that it helps",
        default=True,
    )


class CommunityTraining(Declared, section="Training"):
    """What is random."""

    seed: int = parameter(
        SEED, "of folds, of which species are known in training, and of networks", default=0
    )


class Community(CommunityColumns, CommunityModelParameters, CommunityTraining, Estimator):
    """Each species at a site given its covariates and any subset of the other species.

    The base is a ridge regression of each species on piecewise linear functions of the covariates,
    its penalty drawn to that of all species, and what the residuals of the known species say by
    their correlations: in closed form for any subset. A network corrects it, from exactly zero, as
    far as held-out sites say; `gain_` says by how much. A species never sees its own value.
    Products in baskets, diagnoses of patients or answers of people are species as well.

    {parameters}

    After `fit`: `community_` (all that was learned), `species_`, `family_`, `gain_`.

    >>> random = np.random.default_rng(0)
    >>> rain = random.normal(size=60)
    >>> sites = {"rain": rain, "reed": (rain + random.normal(size=60) > 0) * 1,
    ...     "sedge": (rain + random.normal(size=60) > 0) * 1}
    >>> model = Community(species=["reed", "sedge"]).fit(sites)
    >>> model.predict_proba({"rain": [1.0], "sedge": [1]}).shape
    (1, 2)
    """

    kind = "community"
    fitted_attribute = "community_"

    community_: FittedCommunity = attribute()
    gains_: tuple[Gain | None, ...] = attribute()

    @property
    def species_(self) -> tuple[str, ...]:
        """The names of the species, in the order of all columns."""
        self._check_fitted()
        return self.community_.species

    @property
    def family_(self) -> str:
        """The family that was fitted."""
        self._check_fitted()
        return self.community_.family

    @property
    def gain_(self) -> Gain | None:
        """What the correction added on held-out sites; None where it was not tried."""
        self._check_fitted()
        return self.gains_[0]

    @recorded
    def fit(self, X: Any, Y: Any = None) -> "Community":
        """Fit to sites: a table `X` of covariates and a table `Y` of species, or both in `X`.

        A missing species is not learned from, a missing covariate is filled in.
        """
        self._check_parameters()
        table, species = read_sites(X, Y, species=listed(self.species), dialect=self.dialect)
        plan = CommunityPlan(
            table=table,
            species=species,
            coordinates=listed(self.coordinates),
            effort=self.effort,
            blocks=self.blocks,
            family=str(self.family),
            corrected=bool(self.correction),
            seed=int(self.seed),
        )
        self.community_, self.gains_ = fit_community(plan)
        self.parameters_ = self.get_params(deep=False)
        self.data_counts_ = {"sites": len(species.value), "species": len(self.species_)}
        return self

    def predict_proba(self, X: Any, known: Any = None) -> Float[np.ndarray, "sites species"]:
        """The probability that each species is there, as `predict_dist` has it."""
        return self.predict_dist(X, known).presence

    def predict(self, X: Any, known: Any = None) -> Float[np.ndarray, "sites species"]:
        """Expected values, given the known others: probabilities, counts or shares of cover."""
        return self.predict_dist(X, known).mean

    def predict_dist(self, X: Any, known: Any = None) -> CommunityPrediction:
        """The distribution of each species at each site given all known others, not itself.

        `known`: a table of some species, cells being empty where they are not known; None takes the
            species that `X` has, if any
        """
        inputs, value = self._given(X, known)
        return CommunityPrediction(self.community_, self.community_.etas(inputs, value)).like(X)

    def conditional(self, of: Any, X: Any, known: Any = None) -> CommunityPrediction:
        """The same of all species given the known ones but those named `of`."""
        inputs, value = self._given(X, known)
        value = value.copy()
        value[:, species_indices(self.community_, of)] = np.nan
        return CommunityPrediction(self.community_, self.community_.etas(inputs, value)).like(X)

    def score(self, X: Any, Y: Any = None, *, share: Any = 1.0, seed: int = 0) -> float:
        """Mean log p of a cell, in nats, given a share of the other species; higher is better.

        `share`: of the values of each site, drawn with `seed`
        """
        self._check_fitted()
        check_share("share", share)
        check_seed("seed", seed)
        inputs, value = self._scored(X, Y)
        return float(np.nanmean(self._log_probs(inputs, value, float(share), seed)))

    def scores_by_share(
        self, X: Any, Y: Any = None, *, shares: Any = SHARES_KNOWN, seed: int = 0
    ) -> dict[float, float]:
        """`score` at several shares of the other species known."""
        if not isinstance(shares, Sequence):
            raise ExfamError(f"`shares` must be a list of shares, got {shown(shares)}.")
        return {float(share): self.score(X, Y, share=share, seed=seed) for share in shares}

    def log_prob(
        self, X: Any, Y: Any = None, *, n_orders: int = 4, seed: int = 0
    ) -> Float[np.ndarray, "sites"]:
        """log p(all values of a site | covariates), in nats: by the chain rule, orders mixed.

        `n_orders`: random orders of the species, drawn with `seed`; `sample` draws from the same
            mixture
        """
        inputs, value = self._scored(X, Y)
        orders = self._orders(n_orders, seed)
        return community_log_prob(self.community_, inputs, value, orders=orders)

    def sample(
        self, X: Any, known: Any = None, *, n: int = 1, n_orders: int = 4, seed: int = 0
    ) -> Float[np.ndarray, "draws sites species"]:
        """`n` draws of whole communities at each site, given the known species, which stay.

        Each draw goes through the species in one of `n_orders` random orders.
        """
        inputs, value = self._given(X, known)
        check_whole("n", n)
        orders = self._orders(n_orders, seed)
        random = np.random.default_rng([seed, 1])
        return np.stack(
            [
                chain_draw(self.community_, inputs, value, order=order, random=random)
                for order in orders[random.integers(len(orders), size=n)]
            ]
        )

    def associations(self, part: int = 0) -> Associations:
        """Correlations of what covariates leave unexplained, with intervals.

        `part`: 0, or 1 for the amounts of "hurdle" and "cover" where species are present
        """
        self._check_part(part)
        return self._framed(associations_of(self.community_, number=part))

    def explain(
        self, X: Any, known: Any = None, *, of: Any = None, part: int = 0
    ) -> list[CommunityExplanation]:
        """What each `eta` is made of, site by site: covariates, other species, the correction.

        `of`: names of species; None for all. `part`: as in `associations`
        """
        self._check_part(part)
        inputs, value = self._given(X, known)
        of = self.species_ if of is None else of
        chosen = species_indices(self.community_, of).tolist()
        cells = [(site, s) for site in range(len(inputs)) for s in chosen]
        explained = explained_cells(self.community_, inputs, value, cells=cells, number=part)
        return [explanation.like(X) for explanation in explained]

    def _given(self, X: Any, known: Any) -> tuple[SiteInputs, Float[np.ndarray, "sites species"]]:
        """What is known of sites and, NaN elsewhere, of species."""
        self._check_fitted()
        table = read_marked(table_of(X, self.dialect), self.dialect)
        there = [name for name in self.species_ if name in table.columns]
        if known is not None:
            given = read_species(known)
        elif there:
            given = _species_of(table, there)
        else:
            given = SpeciesTable((), np.zeros((table.n_rows, 0)))
        value = match_known(given, self.species_, table.n_rows)
        return self.community_.inputs(without(table, self.species_)), value

    def _scored(self, X: Any, Y: Any) -> tuple[SiteInputs, Float[np.ndarray, "sites species"]]:
        inputs, value = self._given(X, Y)
        if np.isnan(value).all():
            raise DataError(
                "`Y` must hold a value of some species to score, got none. Pass a table of species."
            )
        return inputs, value

    def _log_probs(
        self, inputs: SiteInputs, value: np.ndarray, share: float, seed: int
    ) -> Float[np.ndarray, "sites species"]:
        shown = known_at(~np.isnan(value), share, np.random.default_rng(seed))
        etas = self.community_.etas(inputs, np.where(shown, value, np.nan))
        return self.community_.log_prob(value, etas)

    def _orders(self, n_orders: int, seed: int) -> np.ndarray:
        check_whole("n_orders", n_orders)
        check_seed("seed", seed)
        return orders_of(len(self.species_), n_orders=n_orders, seed=seed)

    def _check_part(self, part: int) -> None:
        self._check_fitted()
        n = len(self.community_.parts)
        if part not in range(n):
            raise DataError(f"`part` must be below {n} for {self.family_!r}, got {part!r}.")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        columns = {name: listed(getattr(self, name)) for name in ("species", "coordinates")}
        check_distinct(columns)

    def _labels(self) -> dict[str, np.ndarray]:
        return {"species": np.array(self.species_, dtype=object)}

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        import torch

        gains = [None if gain is None else asdict(gain) for gain in self.gains_]
        arrays = self.community_.arrays()
        tensors = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}
        return {"community": self.community_.config(), "gains": gains}, tensors

    def _restore(
        self, config: dict[str, Any], tensors: dict[str, Any], vocabulary: dict[str, np.ndarray]
    ) -> None:
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        self.community_ = FittedCommunity.from_arrays(
            config["community"], arrays, vocabulary["species"].tolist()
        )
        self.gains_ = tuple(None if gain is None else Gain(**gain) for gain in config["gains"])


def _species_of(table: RawTable, names: Sequence[str]) -> SpeciesTable:
    from exfam.tables.community.community_data import as_species

    return as_species({name: table.columns[name] for name in names})
