"""Which elements of a group the model looks at."""

from dataclasses import replace
from typing import Any

import numpy as np

from exfam.efa.explain import Explanation
from exfam.efa.networks.based import BasedItems
from exfam.estimator.gain import Gain
from exfam.groups import Groups
from exfam.plots import layer_map
from exfam.report.material import Material
from exfam.report.page import Part, Picture, Section, SideBySide, left_out
from exfam.report.sections.reasons import reasons
from exfam.report.words import clean, quantity

_TITLE = "Attention"
_FEWEST, _MOST = 4, 10
_CANDIDATES = 40
_PANELS = 8
_MOST_LAYERS = 3
_IN_PICTURES = 30


def attention_section(material: Material) -> Section:
    """Attention weights of a few groups, a picture for each layer."""
    model, groups = material.model, material.scored
    if not hasattr(model, "explain"):
        return left_out(_TITLE, f"{type(model).__name__} has no attention.")
    if groups is None:
        return left_out(_TITLE, "no data were given to attend to.")
    candidates, cut = _candidates(groups, seed=material.seed)
    explained = [] if candidates is None else _of_use(model, model.explain(candidates))
    explanations = [group for group in explained if len(group.centers) <= 2 * _MOST]
    if candidates is None or not explanations:
        return left_out(_TITLE, "no group has two elements or more.")
    because = reasons(model, candidates)
    if not explanations[0].weights:
        text = [str(gain) for gain in _gains(model).values()]
        alone = "The model is its base alone, without attention."
        return Section(_TITLE, text=text or [alone], parts=because)
    first = explanations[0].weights.values()
    number = int(np.clip(_PANELS // sum(min(len(part), _MOST_LAYERS) for part in first), 1, 3))
    shown = sorted(explanations, key=_unevenness, reverse=True)[:number]
    text = [
        "Weights that an element's prediction gives to the others of its group, averaged over the "
        "heads of a layer. Rows are the predicted elements; columns have the numbers of the rows; "
        "∅ takes what no element gets. Darkest: the largest weight of an element of the group. "
        f"Shown {'is the one' if len(shown) == 1 else f'are the {len(shown)}'} of "
        f"{quantity(len(explanations), 'group')} drawn at random whose weights are the most uneven"
        + (f", each cut to its first {_MOST} elements." if cut else ".")
    ]
    if len(model.members_) > 1:
        text.append("Of the first member of the ensemble.")
    parts: list[Part] = [SideBySide(_pictures(explanation)) for explanation in shown]
    parts += because
    return Section(_TITLE, text=text, parts=parts)


def _of_use(model: Any, explained: list[Explanation]) -> list[Explanation]:
    """Explanations without the weights of attention that is switched off."""
    off = {part for part, gain in _gains(model).items() if not gain.gate}
    return [
        replace(group, weights={part: w for part, w in group.weights.items() if part not in off})
        for group in explained
    ]


def _gains(model: Any) -> dict[str, Gain]:
    """What attention added to the bases of items and of values, where it was weighed."""
    first = "items" if isinstance(model.members_[0].item_part, BasedItems) else "values"
    gains = {"values": getattr(model, "value_gain_", None), first: getattr(model, "gain_", None)}
    return {part: gain for part, gain in gains.items() if gain is not None}


def _candidates(groups: Groups, *, seed: int) -> tuple[Groups | None, bool]:
    """Random groups of a size that can be shown; long ones are cut where there are no others."""
    length = groups.stop - groups.start
    able = np.flatnonzero((length >= _FEWEST) & (length <= _MOST))
    if not len(able):
        able = np.flatnonzero(length >= 2)
    if not len(able):
        return None, False
    drawn = np.random.default_rng(seed).permutation(able)[:_CANDIDATES]
    chosen = groups[np.sort(drawn)]
    cut = bool(((chosen.stop - chosen.start) > _MOST).any())
    return chosen.with_(stop=np.minimum(chosen.stop, chosen.start + _MOST)), cut


def _unevenness(explanation: Explanation) -> float:
    """How much of a row's weight its largest entry has over an even share, on average.

    Rows that see one element or none have no choice.
    """
    of_parts = []
    for weights in explanation.weights.values():
        on_elements = weights.mean(axis=1)[..., : len(explanation.centers)]
        seen = (on_elements != 0).sum(axis=-1)
        over = on_elements.max(axis=-1) - on_elements.sum(axis=-1) / np.maximum(seen, 1)
        of_parts.append(np.where(seen > 1, over, 0.0).mean())
    return float(np.mean(of_parts))


def _pictures(explanation: Explanation) -> list[Picture]:
    names = [clean(name, most=_IN_PICTURES) for name in explanation.centers]
    short = Explanation(explanation.group, names, explanation.columns, explanation.weights)
    group = clean(explanation.group, most=30)
    several = len(explanation.weights) > 1
    pictures = []
    for part, weights in explanation.weights.items():
        for layer in range(1, min(len(weights), _MOST_LAYERS) + 1):
            of_part = f" of the {part[:-1]} part" if several else ""
            title = f"Group {group}: layer {layer}{of_part}"
            pictures.append(Picture(title, layer_map(short, part=part, layer=layer)))
    return pictures
