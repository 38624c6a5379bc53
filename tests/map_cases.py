"""Small fields for tests: maps of sites with known truth, and ways to change one element."""

from dataclasses import replace

import numpy as np
import torch

from exfam.groups import Groups

N_SITES = 6
SCALE = np.array([1.0, 2.0, 5.0, 1.0, 3.0, 2.0])
LEVEL = np.array([10.0, -5.0, 60.0, 0.0, 20.0, 3.0])


def true_covariance(n_sites=N_SITES):
    """Of the anomalies: neighbors in a row of sites are alike."""
    site = np.arange(n_sites)
    return 0.8 ** np.abs(site[:, None] - site) + 0.2 * np.eye(n_sites)


def make_maps(n_maps=60, *, seed=0, lags=0, missing=0.0, memory=0.6, n_sites=N_SITES):
    """Maps of anomalies that follow each other with `memory`, at sites of other levels and scales.

    The third part of the maps starts a new season: the map before its first one is not there.
    """
    random = np.random.default_rng(seed)
    root = np.linalg.cholesky(true_covariance(n_sites))
    z = random.normal(size=(n_maps, n_sites)) @ root.T
    for t in range(1, n_maps):
        z[t] = memory * z[t - 1] + np.sqrt(1 - memory**2) * z[t]
    season = 3 * np.arange(n_maps) // n_maps
    value = LEVEL[:n_sites] + SCALE[:n_sites] * z
    place = np.column_stack([30.0 + 2 * np.arange(n_sites), -90.0 + np.arange(n_sites) ** 1.5])
    start = np.arange(n_maps) * n_sites
    before = np.arange(n_maps)[:, None] - np.arange(lags, 0, -1)
    same = (before >= 0) & (season[before] == season[:, None])
    first = np.where(same, before * n_sites, 0)
    context = {"context_start": first, "context_stop": first + n_sites * same} if lags else {}
    observed = random.random(n_maps * n_sites) >= missing
    return Groups(
        start=start,
        stop=start + n_sites,
        item=np.tile(np.arange(n_sites), n_maps).astype(np.int32),
        values={"value": value.ravel()},
        observed=observed if missing else None,
        attributes={"coordinates": np.tile(place, (n_maps, 1))},
        position=np.tile(place, (n_maps, 1)),
        group_attributes={"time": np.arange(n_maps) + 300.0 * season},
        vocabulary={"item": np.array(list("abcdefghij"[:n_sites]))},
        **context,
    )


def batch_of(groups, index=None):
    """Some maps, or all, as one batch."""
    return groups.pad(np.arange(len(groups)) if index is None else index)


def with_map_value(batch, row, column, value, *, observed=None):
    """The batch with another value, and perhaps another flag, at one element."""
    values = batch.values["value"].clone()
    assert values[row, column] != value
    values[row, column] = value
    seen = batch.observed.clone()
    if observed is not None:
        seen[row, column] = observed
    return replace(batch, values={"value": values}, observed=seen)


def in_order(batch, order):
    """The elements of every map in another order."""
    return replace(
        batch,
        item=batch.item[:, order],
        values={name: value[:, order] for name, value in batch.values.items()},
        attributes={name: a[:, order] for name, a in batch.attributes.items()},
        position=batch.position[:, order],
        **{
            name: getattr(batch, name)[:, order]
            for name in ("present", "target", "observed", "element", "steps_back")
        },
    )


def one_more(batch, *, present, item, coordinates):
    """One more column: an element whose value is not observed, or padding, with a garbage value."""
    n = len(batch.present)

    def wider(x, fill):
        return torch.cat([x, torch.as_tensor(fill, dtype=x.dtype).expand(n, 1, *x.shape[2:])], 1)

    return replace(
        batch,
        item=wider(batch.item, item),
        values={name: wider(value, 1e3) for name, value in batch.values.items()},
        attributes={"coordinates": wider(batch.attributes["coordinates"], coordinates)},
        position=wider(batch.position, coordinates),
        present=wider(batch.present, present),
        target=wider(batch.target, present),
        observed=wider(batch.observed, False),
        element=wider(batch.element, -1),
        steps_back=wider(batch.steps_back, 0),
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
        torch.testing.assert_close(moved[row, seen], eta[row, seen])
        others = own[row].clone()
        others[seen] = False
        assert (moved[row, others, 0] - eta[row, others, 0]).abs().max() > 1e-3
        rest = torch.arange(len(own)) != row
        torch.testing.assert_close(moved[rest], eta[rest])
        same = part.eta(with_map_value(batch, row, hidden, 7.5))
        torch.testing.assert_close(same[own], eta[own])
        shown = part.eta(with_map_value(batch, row, hidden, 7.5, observed=True))
        torch.testing.assert_close(shown[row, hidden], eta[row, hidden])
        order = torch.randperm(own.shape[1], generator=torch.Generator().manual_seed(0))
        back = part.eta(in_order(batch, order))[:, torch.argsort(order)]
        torch.testing.assert_close(back[own], eta[own], rtol=1e-5, atol=1e-5)
        for present in (True, False):
            wide = one_more(batch, present=present, item=-1, coordinates=(33.0, -89.0))
            torch.testing.assert_close(part.eta(wide)[:, :-1][own], eta[own])
        few = part.eta(replace_rows(batch, slice(row, row + 1)))
        torch.testing.assert_close(few[own[row][None]], eta[row][own[row]], rtol=1e-5, atol=1e-5)


def replace_rows(batch, rows):
    """Some maps of a batch."""
    return replace(
        batch,
        item=batch.item[rows],
        values={name: value[rows] for name, value in batch.values.items()},
        attributes={name: a[rows] for name, a in batch.attributes.items()},
        group_attributes={name: a[rows] for name, a in batch.group_attributes.items()},
        position=batch.position[rows],
        **{
            name: getattr(batch, name)[rows]
            for name in ("present", "target", "observed", "element", "steps_back")
        },
    )
