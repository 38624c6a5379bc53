"""What a request's network takes alone: the same tensors, from groups that are padded already."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from exfam.catalog.ranking import best_items
from exfam.efa.blanks import append_blank
from exfam.efa.contributions import _candidates, _of_base, _probabilities
from exfam.efa.networks.based import BasedItems, network_of
from exfam.estimator.evaluate import _has_large_catalog, item_components
from exfam.groups import Batch

K = 10
Network = Callable[[], Any]


def networks(model: Any, groups: Any) -> dict[str, Network]:
    """Of one group, by request."""
    inputs = model._inputs(groups).groups
    blank = append_blank(inputs, model.schema_).pad(np.array([0]))
    own, members = inputs.pad(np.array([0])), model.members_
    made: dict[str, Network] = {
        "recommend": lambda: _top(members, blank, k=K),
        "score": lambda: _log_prob(members, own),
        "predict": lambda: _top(members, own, k=1),
    }
    code = inputs.item
    if hasattr(model, "item_vectors_") or isinstance(members[0].item_part, BasedItems):
        made["explain"] = lambda: _explain(members, own, code)
    return made


@torch.inference_mode()
def _top(members: Any, batch: Batch, *, k: int) -> Any:
    components, shares = item_components(members)
    if not _has_large_catalog(members):
        parts = [model.item_log_probs(batch)[batch.target].double() for model in components]
        return [part.exp().topk(min(k, part.shape[1])) for part in parts]
    row, position = batch.target.nonzero(as_tuple=True)
    choices = [model.choice(batch, (row, position)) for model in components]
    return best_items(choices, k=k, shares=shares)


@torch.inference_mode()
def _log_prob(members: Any, batch: Batch) -> Any:
    return [model.log_prob(batch) for model in item_components(members)[0]]


@torch.inference_mode()
def _explain(members: Any, batch: Batch, code: np.ndarray) -> Any:
    part = members[0].item_part
    network = network_of(part)
    found = [] if network is None else [network.hidden(batch)]
    if isinstance(part, BasedItems):
        chosen = _candidates(batch, code)
        found += [_of_base(part, *chosen), _probabilities(members, *chosen)]
    return found
