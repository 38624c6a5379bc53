"""Small fields for tests: maps of sites with known truth, and ways to change one element."""

from dataclasses import replace

import numpy as np
import torch
from numpy.testing import assert_allclose
from torch.testing import assert_close

from exfam.fields.explanations import explained_base
from exfam.fields.networks.links import model_unit
from exfam.groups import Groups

N_SITES = 6
SCALE = np.array([1.0, 2.0, 5.0, 1.0, 3.0, 2.0])
LEVEL = np.array([10.0, -5.0, 60.0, 0.0, 20.0, 3.0])
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
# Of a batch: columns with one entry for each element.
_BY_ELEMENT = ("item", "position", "present", "target", "observed", "element", "steps_back")


def field(values, coordinates, *, times=None, observed=None, before=None, lags=0, item=None):
    """One group a row of `values` (maps, sites); `lags` maps `before` each one are its context."""
    n_maps, n_sites = values.shape
    start = np.arange(n_maps) * n_sites
    back = np.arange(n_maps)[:, None] - np.arange(lags, 0, -1)
    there = back >= 0 if before is None else (back >= 0) & before(back)
    first = np.where(there, back * n_sites, 0)
    context = {"context_start": first, "context_stop": first + n_sites * there} if lags else {}
    item = np.arange(n_sites) if item is None else np.asarray(item)
    coordinates = np.tile(np.asarray(coordinates, dtype=float), (n_maps, 1))
    return Groups(
        start=start,
        stop=start + n_sites,
        item=np.tile(item, n_maps),
        values={"value": values.ravel()},
        observed=None if observed is None else observed.ravel(),
        attributes={"coordinates": coordinates},
        position=coordinates,
        group_attributes={"time": np.arange(n_maps) * 1.0 if times is None else times},
        vocabulary={"item": np.arange(n_sites)},
        **context,
    )


def true_covariance(n_sites=N_SITES):
    """Of the anomalies: neighbors in a row of sites are alike."""
    site = np.arange(n_sites)
    return 0.8 ** np.abs(site[:, None] - site) + 0.2 * np.eye(n_sites)


def chained(fresh, memory):
    """Maps that follow each other with `memory`, from independent ones."""
    maps = [fresh[0]]
    for new in fresh[1:]:
        maps.append(memory * maps[-1] + np.sqrt(1 - memory**2) * new)
    return np.array(maps)


def make_maps(n_maps=60, *, seed=0, lags=0, missing=0.0, memory=0.6):
    """Maps of anomalies that follow each other, at sites of other levels and scales.

    The third part of the maps starts a new season: the map before its first one is not there.
    """
    random = np.random.default_rng(seed)
    root = np.linalg.cholesky(true_covariance())
    z = chained(random.normal(size=(n_maps, N_SITES)) @ root.T, memory)
    season = 3 * np.arange(n_maps) // n_maps
    sites = np.column_stack([30.0 + 2 * np.arange(N_SITES), -90.0 + np.arange(N_SITES) ** 1.5])
    observed = random.random(z.shape) >= missing
    return field(
        LEVEL + SCALE * z,
        sites,
        times=np.arange(n_maps) + 300.0 * season,
        observed=observed if missing else None,
        before=lambda back: season[back] == season[:, None],
        lags=lags,
    )


def ragged_maps(*, lags=0):
    """Maps of unequal numbers of sites, some values missing."""
    groups = make_maps(12, seed=1, lags=lags, missing=0.3)
    return groups if lags else groups.with_(stop=groups.stop - np.arange(12) % 4)


def smooth_maps(n_maps, coordinates, *, length, rng, memory=0.0, noise=0.3):
    """Maps of a stationary Gaussian field with a Matern 3/2 covariance of variance 1, and noise."""
    distance = np.linalg.norm(coordinates[:, None] - coordinates[None], axis=-1)
    r = 3**0.5 * distance / length
    factor = np.linalg.cholesky((1 + r) * np.exp(-r) + 1e-9 * np.eye(len(coordinates)))
    fresh = rng.normal(size=(n_maps, len(coordinates))) @ factor.T
    maps = chained(fresh, np.exp(-1 / memory) if memory else 0.0)
    return maps + noise * rng.normal(size=fresh.shape)


def batch_of(groups, index=None):
    """Some maps, or all, as one batch."""
    return groups.pad(np.arange(len(groups)) if index is None else index)


def with_map_value(batch, row, column, value, *, observed=None):
    """The batch with another value, and perhaps another flag, at one element."""
    values, seen = batch.values["value"].clone(), batch.observed.clone()
    values[row, column] = value
    assert not values.equal(batch.values["value"])
    if observed is not None:
        seen[row, column] = observed
    return replace(batch, values={"value": values}, observed=seen)


def changed(batch, change, *, groups=False):
    """The batch with `change` of its columns: those of elements, or also those of groups."""
    tables = ("values", "attributes", *(("group_attributes",) if groups else ()))
    columns = {name: change(getattr(batch, name)) for name in _BY_ELEMENT}
    for table in tables:
        columns[table] = {name: change(x) for name, x in getattr(batch, table).items()}
    return replace(batch, **columns)


def in_order(batch, order):
    """The elements of every map in another order."""
    return changed(batch, lambda column: column[:, order])


def one_more(batch, *, present):
    """One more column: an element whose value is not observed, or padding, with a garbage value."""

    def wider(x, fill):
        more = torch.as_tensor(fill, dtype=x.dtype).expand(len(x), 1, *x.shape[2:])
        return torch.cat([x, more], 1)

    at = (33.0, -89.0)
    fills = dict(zip(_BY_ELEMENT, (-1, at, present, present, False, -1, 0), strict=True))
    return replace(
        batch,
        values={name: wider(value, 1e3) for name, value in batch.values.items()},
        attributes={"coordinates": wider(batch.attributes["coordinates"], at)},
        **{name: wider(getattr(batch, name), fill) for name, fill in fills.items()},
    )


def assert_leave_one_out(part, batch):
    """The laws of a field model's conditionals, on a batch with missing values."""
    own = batch.present & (batch.steps_back == 0)
    assert not batch.observed[own].all() and batch.observed[own].any()
    with torch.no_grad():
        eta = part.eta(batch)
        assert eta.shape == (*batch.present.shape, 2) and eta[own].isfinite().all()
        row = int((batch.observed & own).sum(1).argmin())
        seen = (batch.observed & own)[row].nonzero()[0, 0]
        hidden = (~batch.observed & own)[row].nonzero()[0, 0]
        moved = part.eta(with_map_value(batch, row, seen, 1.5))
        assert_close(moved[row, seen], eta[row, seen])
        others = own[row].clone()
        others[seen] = False
        assert (moved[row, others, 0] - eta[row, others, 0]).abs().max() > 1e-3
        rest = torch.arange(len(own)) != row
        assert_close(moved[rest], eta[rest])
        same = part.eta(with_map_value(batch, row, hidden, 7.5))
        assert_close(same[own], eta[own])
        shown = part.eta(with_map_value(batch, row, hidden, 7.5, observed=True))
        assert_close(shown[row, hidden], eta[row, hidden])
        order = torch.randperm(own.shape[1], generator=torch.Generator().manual_seed(0))
        back = part.eta(in_order(batch, order))[:, torch.argsort(order)]
        assert_close(back[own], eta[own], **CLOSE)
        for present in (True, False):
            assert_close(part.eta(one_more(batch, present=present))[:, :-1][own], eta[own])
        few = part.eta(changed(batch, lambda column: column[row : row + 1], groups=True))
        assert_close(few[own[row][None]], eta[row][own[row]], **CLOSE)


def check_reasons_of_one(model, frame):
    """What one mean of a single map is made of is how far it moves without each value."""
    (whole,) = model.explain(frame)
    inputs, part = model._inputs(frame), model.members_[0].value_part
    base = getattr(part, "base", part)
    batch = inputs.groups.pad([0])
    there = batch.present[0].nonzero()[:, 0]
    elements = base.normal.elements(batch)
    means = base.of_elements(elements)[0, there, 0]
    options = {"given": inputs.given, "family": model.family_}
    for element in (0, int(whole.own.sum()) - 1):
        alone = explained_base(part, inputs.groups, 0, center=element, **options)
        for name in ("normal", "contributions", "shift", "covariates"):
            assert_allclose(getattr(alone, name)[0], getattr(whole, name)[element])
        assert alone.site[alone.own] == whole.site[whole.own][element]
        for k in (0, len(there) // 2, len(there) - 1):
            anomaly = elements.anomaly.clone()
            anomaly[0, there[k]] = 0.0
            moved = means - base.of_elements(elements._replace(anomaly=anomaly))[0, there, 0]
            added = float(moved[alone.own][0]) * model_unit(model.family_).factor
            assert_allclose(alone.contributions[0, k], added, rtol=1e-6, atol=1e-8)
