"""What the model is and how it was fitted."""

import inspect
from typing import Any

from exfam.estimator.gain import gain_sentences
from exfam.plots import learning_curve
from exfam.report.material import Material
from exfam.report.page import Facts, Part, Picture, Section, SideBySide, TableData
from exfam.report.words import clean, figure, quantity

_DIRECTIONS = {
    "bidirectional": "Each element is predicted from all the others of its group.",
    "causal": "Each element is predicted from the earlier ones of its group.",
}
_SUPPORTS = {
    "none": "Items of the context may occur again.",
    "hard": "Items of the context are excluded: they cannot occur again.",
    "penalty": "How likely items of the context are to occur again is learned.",
}
_REASONS = {"max_epochs": "the largest number of epochs", "patience": "lack of improvement"}


def model_section(material: Material) -> Section:
    """Choices, parameters that differ from the defaults, and the learning curve."""
    model = material.model
    text = [_DIRECTIONS[model.direction]]
    if material.has_items:
        text[0] += " " + _SUPPORTS[model.support_]
    curve, table = curve_picture(model), parameter_table(model)
    if curve is None:
        name = type(model).__name__
        text.append(f"{name} is fitted in closed form or nearly so: there is no learning curve.")
    gains = gain_sentences(model)
    if gains:
        also = "These groups also chose the epoch: new data gain a little less."
        text.append(" ".join([*gains, also]))
    if not table.rows:
        text.append("All parameters have their default values.")
    inside = ([table] if table.rows else []) + ([] if curve is None else [curve])
    parts: list[Part] = [Facts(_facts(material))]
    return Section("The model", text=text, parts=[*parts, SideBySide(inside)] if inside else parts)


def _facts(material: Material) -> list[tuple[str, str]]:
    model = material.model
    facts = [("estimator", type(model).__name__), ("direction", model.direction)]
    if material.has_items:
        facts += [("items", f"{len(material.names):,}"), ("support of items", model.support_)]
    for spec in model.schema_.values[:3]:
        facts.append((f"family of “{clean(spec.column, most=20)}”", clean(spec.family.name)))
    trained = sum(parameter.numel() for parameter in material.member.parameters())
    if trained:
        facts.append(("trained numbers", f"{trained:,}"))
    if len(model.members_) > 1:
        facts.append(("members of the ensemble", str(len(model.members_))))
    if (gain := getattr(model, "gain_", None)) is not None:
        low, mean, high = map(figure, (gain.low, gain.nats, gain.high))
        facts.append(("nats of the base on validation groups", figure(gain.base_nats)))
        facts.append(("gain of attention, 95 % interval", f"{mean} [{low}, {high}]"))
        weights = f"{figure(gain.scale)}, {figure(gain.gate)}"
        facts.append(("weights of base and attention", weights))
        if gain.mix:
            facts.append(("share of the base alone in probabilities", figure(gain.mix)))
    history = getattr(model, "history_", None)
    if history is not None and len(history):
        facts.append(("epochs", f"{len(history):,}"))
        facts.append(("processor seconds", figure(history.cpu_seconds, 1)))
    return facts


def parameter_table(model: Any) -> TableData:
    """Those that differ from the constructor's defaults."""
    defaults = inspect.signature(type(model)).parameters
    rows = [
        [name, clean(_shown(value), most=120)]
        for name, value in model.get_params(deep=False).items()
        if _shown(value) != _shown(defaults[name].default)
    ]
    columns = ["parameter", "value"]
    return TableData(columns, rows, words=columns, title="Parameters that differ from the defaults")


def _shown(value: Any) -> str:
    """Lists read as tuples do: a saved model comes back with these."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def curve_picture(model: Any) -> Picture | None:
    """The learning curve of a model that has one."""
    history = getattr(model, "history_", None)
    if history is None or not len(history):
        return None
    reason = _REASONS.get(history.stopped, "an interruption")
    caption = f"{quantity(history.steps, 'step')}; stopped by {reason}."
    if history.best is None:
        caption += " There was no validation data: the last weights were kept."
    else:
        epoch, nats = history.best.epoch, figure(history.best.validation_nats)
        caption += f" The ring marks epoch {epoch}, whose weights were kept: {nats} nats."
    if len(model.members_) > 1:
        caption += " First member of the ensemble."
    return Picture("Learning curve", learning_curve(history, width=4.6), caption)
