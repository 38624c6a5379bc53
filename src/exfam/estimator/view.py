"""A model as notebooks show it: what it is, its data, its scores and time, its parameters.

Everything shown was kept by the fit; nothing is computed.
"""

import inspect
from html import escape
from typing import Any

from exfam.estimator.gain import Gain, gain_sentences

# No colors but those of the page, so that it reads on light and dark.
_STYLE = (
    ".exfam-model{font-size:0.95em;line-height:1.45;margin-bottom:0.6em}"
    ".exfam-model table{border-collapse:collapse;margin:0.3em 0}"
    ".exfam-model th,.exfam-model td{text-align:left;vertical-align:top;padding:0.1em 1em 0.1em 0;"
    "background:none;border:none;color:inherit;font-weight:normal}"
    ".exfam-model th{opacity:0.7;white-space:nowrap}"
)

_UNMEASURED = "not measured by the fit; score(data) measures it, in nats"


def model_html(estimator: Any) -> str:
    """scikit-learn's view of the parameters, below what the fit was if there was one."""
    from sklearn.utils import estimator_html_repr

    parameters = estimator_html_repr(estimator)
    if not estimator.__sklearn_is_fitted__():
        return parameters
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{'<br>'.join(map(escape, lines))}</td></tr>"
        for name, lines in fit_rows(estimator).items()
        if lines
    )
    title = f"<strong>{escape(type(estimator).__name__)}</strong>, fitted. "
    return (
        f"<style>{_STYLE}</style><div class='exfam-model'>{title}{escape(_first_line(estimator))}"
        f"<table><tbody>{rows}</tbody></table></div>{parameters}"
    )


def fit_rows(estimator: Any) -> dict[str, list[str]]:
    """What the view says of a fit: the title of each row, and its lines."""
    return {
        "data": _data_lines(estimator),
        "score": _base_lines(estimator) or _epoch_lines(estimator) or [_UNMEASURED],
        "added": gain_sentences(estimator),
        "took": _time_lines(estimator),
    }


def _first_line(estimator: Any) -> str:
    return (inspect.getdoc(type(estimator)) or "").partition("\n")[0]


def _data_lines(estimator: Any) -> list[str]:
    counts = getattr(estimator, "data_counts_", {})
    return [", ".join(f"{n:,} {name}" for name, n in counts.items())] if counts else []


def _base_lines(estimator: Any) -> list[str]:
    gains = {
        name: getattr(estimator, attribute, None)
        for name, attribute in (("", "gain_"), ("values: ", "value_gain_"))
    }
    if gains["values: "] is not None:
        gains = {"items: ": gains[""], "values: ": gains["values: "]}
    return [f"{name}{_beside(gain)}" for name, gain in gains.items() if gain is not None]


def _beside(gain: Gain) -> str:
    total = gain.base_nats + (gain.nats if gain.gate else 0.0)
    return (
        f"{total:.4g} nats an element on {gain.n_groups:,} {gain.groups}; "
        f"{gain.base_nats:.4g} by the base alone"
    )


def _epoch_lines(estimator: Any) -> list[str]:
    histories = getattr(estimator, "histories_", [])
    best = histories[0].best if histories else None
    if best is None:
        return []
    return [
        f"{-best.validation_nats:.4g} nats on validation at epoch {best.epoch} of "
        f"{len(histories[0])}, which was kept"
    ]


def _time_lines(estimator: Any) -> list[str]:
    seconds = getattr(estimator, "fit_seconds_", None)
    if seconds is None:
        return []
    histories = getattr(estimator, "histories_", [])
    n_epochs = sum(map(len, histories))
    epochs = f", {n_epochs:,} epoch{'s' * (n_epochs != 1)} of training" if n_epochs else ""
    return [f"{_duration(seconds)}{epochs}"]


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
