"""Fits renewal processes by expectation and maximization, cells and open ends included."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64
from scipy.special import log_ndtr

from exfam.efa.events.wait_processes import (
    N_INPUTS,
    ClockedSpells,
    RenewalProcess,
    log_of_rest,
)

_N_PARTS, _N_STEPS = 6, 80
# Waits that count for an item as if they had the shares of all items.
_SHARE_FIRMNESS = 15.0
# Waits are not below this part of all time together.
_LEAST = 1e-12

Chosen = Bool[np.ndarray, "spells"]


def fit_renewal(
    clocked: ClockedSpells, chosen: Chosen, *, n_items: int, by_past: bool = False
) -> RenewalProcess:
    """The mixture of log-normals of chosen spells; `by_past`: moved by past waits and values."""
    ends, middle = _ends_of(clocked, chosen)
    known, process = np.isfinite(middle), RenewalProcess(np.zeros(1), np.zeros(1), np.zeros((1, 1)))
    state = clocked.state(process)[chosen]
    last, n_parts = state.last % (n_items + 2), min(_N_PARTS, max(1, int(known.sum()) // 20))
    inputs, rest = np.zeros((len(last), N_INPUTS)), middle[known]
    if by_past:
        process = replace(process, scales=_scales_of(rest, state.value))
        inputs = process.inputs(state)
        even = np.ones((int(known.sum()), 1))
        process = replace(process, slope=_moved(process.slope, inputs[known], rest[:, None], even))
        rest = rest - inputs[known] @ process.slope
    spread = max(float(rest.std()) / np.sqrt(n_parts), 0.05)
    process = replace(
        process,
        mean=np.quantile(rest, (np.arange(n_parts) + 0.5) / n_parts),
        log_scale=np.full(n_parts, np.log(spread)),
        log_share=np.full((n_items + 2, n_parts), -np.log(n_parts)),
    )
    previous = -np.inf
    for _ in range(_N_STEPS):
        nats, process = _step(process, ends, last, inputs if by_past else None)
        if nats - previous < 1e-6:
            break
        previous = nats
    return process


def _step(
    process: RenewalProcess,
    ends: "_Ends",
    last: Int64[np.ndarray, "spells"],
    inputs: Float[np.ndarray, "spells inputs"] | None,
) -> tuple[float, RenewalProcess]:
    """Mean nats of a process, and a better one."""
    moved = ends
    if inputs is not None:
        shift = inputs @ process.slope
        moved = _Ends(ends.lower - shift, ends.upper - shift, ends.exact)
    log_mass, first, second = _moments(moved, process.mean, np.exp(process.log_scale))
    joint = log_mass + process.log_share[last]
    top = joint.max(1, keepdims=True)
    part = np.exp(joint - top)
    nats = float((np.log(part.sum(1)) + top[:, 0]).mean())
    part /= part.sum(1, keepdims=True)
    size = part.sum(0) + 1e-9
    mean = (part * first).sum(0) / size
    square = (part * (second - 2 * mean * first)).sum(0) / size + mean**2
    square, slope = np.maximum(square, 1e-4), process.slope
    if inputs is not None:
        slope = _moved(slope, inputs, first - mean, part / square)
    share = _shares_by_item(part, last, len(process.log_share))
    better = replace(
        process, mean=mean, log_scale=0.5 * np.log(square), log_share=np.log(share), slope=slope
    )
    return nats, better


def _moved(
    slope: Float[np.ndarray, "inputs"],
    inputs: Float[np.ndarray, "spells inputs"],
    rest: Float[np.ndarray, "spells parts"],
    weight: Float[np.ndarray, "spells parts"],
) -> Float[np.ndarray, "inputs"]:
    """Slopes by weighted least squares of what is left, held near 0."""
    held = np.eye(len(slope))
    square = (inputs * weight.sum(1)[:, None]).T @ inputs + held
    return slope + np.linalg.solve(square, inputs.T @ (rest * weight).sum(1) - slope)


def _scales_of(
    log_wait: Float[np.ndarray, "known"], value: Float[np.ndarray, "spells"]
) -> Float[np.ndarray, "3"]:
    """The center of logs of waits, and the center and scale of values."""
    value = value[np.isfinite(value)]
    value = value if len(value) and value.std() > 0 else np.array([-1.0, 1.0])
    return np.array([log_wait.mean(), value.mean(), value.std()])


def _ends_of(clocked: ClockedSpells, chosen: Chosen) -> tuple["_Ends", Float[np.ndarray, "chosen"]]:
    """Where logs of waits are; and these, infinite where unknown, unless all are."""
    is_event = clocked.spells.event[chosen] >= 0
    least = max(_LEAST * float(clocked.high[chosen].sum()), np.finfo(float).tiny)
    high = np.maximum(clocked.high[chosen], least)
    low = clocked.low[chosen] if clocked.streams.resolution else high
    lower = np.log(np.maximum(np.where(is_event, low, high), least))
    lower = np.where(is_event & (low <= 0), -np.inf, lower)
    upper = np.where(is_event, np.log(high), np.inf)
    ends = _Ends(lower, upper, lower == upper)
    return ends, upper if is_event.any() else lower


def _shares_by_item(
    part: Float[np.ndarray, "spells parts"], last: Int64[np.ndarray, "spells"], n: int
) -> Float[np.ndarray, "last parts"]:
    total = part.sum(0) / part.sum()
    total = (total + 1e-6) / (total + 1e-6).sum()
    own = np.stack([np.bincount(last, weights=column, minlength=n) for column in part.T], axis=1)
    own += _SHARE_FIRMNESS * total
    return own / own.sum(1, keepdims=True)


class _Ends(NamedTuple):
    """Between which logs each wait is, and whether both are the same."""

    lower: Float[np.ndarray, "spells"]
    upper: Float[np.ndarray, "spells"]
    exact: Bool[np.ndarray, "spells"]


def _moments(
    ends: _Ends, mean: Float[np.ndarray, "parts"], scale: Float[np.ndarray, "parts"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-mass of each wait by part, and the mean and mean square of its log within its ends."""
    shape = (len(ends.lower), len(mean))
    log_mass, first, second = np.empty(shape), np.empty(shape), np.empty(shape)
    exact, wide = ends.exact, ~ends.exact
    if exact.any():
        x = ends.lower[exact, None]
        z = (x - mean) / scale
        log_mass[exact] = -0.5 * z**2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
        first[exact], second[exact] = x, x**2
    if wide.any():
        a = (ends.lower[wide, None] - mean) / scale
        b = (ends.upper[wide, None] - mean) / scale
        log_mass[wide], z_mean, z_square = _between(a, b)
        first[wide] = mean + scale * z_mean
        second[wide] = mean**2 + 2 * mean * scale * z_mean + scale**2 * z_square
    return log_mass, first, second


def _between(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a standard normal between a and b: log-mass, mean and mean square."""
    turned = a > 0
    low, high = np.where(turned, -b, a), np.where(turned, -a, b)
    upper = log_ndtr(high)
    log_mass = upper + log_of_rest(log_ndtr(low) - upper)

    def density(z: np.ndarray) -> np.ndarray:
        log_density = -0.5 * np.square(z) - 0.5 * np.log(2 * np.pi)
        return np.exp(np.minimum(log_density - log_mass, 700.0))

    at_low, at_high = density(low), density(high)
    # Far out, rounding leaves nothing of the difference: the mean is at the nearer end.
    finite_low = np.where(np.isfinite(low), low, 0.0)
    finite_high = np.where(np.isfinite(high), high, 0.0)
    mean = (at_low - at_high).clip(
        np.where(np.isfinite(low), low, -np.inf), np.where(np.isfinite(high), high, np.inf)
    )
    square = 1 + finite_low * at_low - finite_high * at_high
    square = np.maximum(square, mean**2)
    return log_mass, np.where(turned, -mean, mean), square
