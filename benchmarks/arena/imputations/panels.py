"""Panels with hidden values: contenders learn from what is shown of the panel that they fill in."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from benchmarks.arena.fields.data import FieldData, Maps
from benchmarks.arena.fields.tasks import Field, values_before
from benchmarks.arena.kind import Folds
from jaxtyping import Bool

# Length of a run of hidden values of a site, in times.
RUN = 10
# Of what is shown, the share that settings and spreads are learned by, hidden in the same way.
HELD_OUT = 0.1

Cells = Bool[np.ndarray, "times sites"]
Hide = Callable[[tuple[int, int], float, np.random.Generator], Cells]


def at_random(shape: tuple[int, int], share: float, random: np.random.Generator) -> Cells:
    """Each value with that chance."""
    return random.random(shape) < share


def in_runs(shape: tuple[int, int], share: float, random: np.random.Generator) -> Cells:
    """Each run of times of a site with that chance; sites' runs start at times of their own."""
    n_times, n_sites = shape
    run = (np.arange(n_times)[:, None] + random.integers(RUN, size=n_sites)) // RUN
    return (random.random((run.max() + 1, n_sites)) < share)[run, np.arange(n_sites)]


def in_outages(shape: tuple[int, int], share: float, random: np.random.Generator) -> Cells:
    """Of every site one stretch of that share of all times."""
    n_times, n_sites = shape
    length = round(share * n_times)
    since = np.arange(n_times)[:, None] - random.integers(n_times - length + 1, size=n_sites)
    return (since >= 0) & (since < length)


PATTERNS: dict[str, tuple[Hide, float]] = {
    "10 %": (at_random, 0.1),
    "40 %": (at_random, 0.4),
    "80 %": (at_random, 0.8),
    "runs": (in_runs, 0.4),
    "outages": (in_outages, 0.4),
}


def impute(field: Field, *, n_times: int) -> Folds:
    """The last `n_times` times of a field, once with each pattern of hidden values."""
    last = {name: getattr(field, name)[-n_times:] for name in ("time", "value", "part")}
    panel = replace(field, **last)
    return Folds([panel_with(panel, pattern) for pattern in PATTERNS], same_groups=True)


def panel_with(panel: Field, pattern: str) -> FieldData:
    """The panel with values hidden, of which `test` are the targets and `both` shows the rest."""
    hide, share = PATTERNS[pattern]
    random = np.random.default_rng(list(PATTERNS).index(pattern))
    there = ~np.isnan(panel.value)
    hidden = hide(panel.value.shape, share, random)
    held_out = hide(panel.value.shape, HELD_OUT, random)
    shown, target = there & ~hidden, there & hidden
    fewer = shown & ~held_out
    return FieldData(
        train=_maps(panel, fewer, fewer),
        validation=_maps(panel, fewer, shown & held_out),
        both=_maps(panel, shown, shown),
        test=_maps(panel, shown, target),
        coordinates=panel.coordinates,
        metric=panel.metric,
        unit=panel.unit,
        period=panel.period,
        block=panel.block,
        lags=1,
        pattern=pattern,
    )


def _maps(panel: Field, shown: Cells, target: Cells) -> Maps:
    visible = np.where(shown, panel.value, np.nan)
    return Maps(
        time=panel.time,
        value=np.where(shown | target, panel.value, np.nan),
        shown=shown,
        target=target,
        before=values_before(panel.time, visible),
        hidden_share=np.zeros(len(panel.time)),
    )
