"""Fitted estimators to folders and back."""

import math
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from exfam.checks import ExfamError, ModelFileError
from exfam.estimator.registry import REGISTRY, class_of
from exfam.estimator.seen import Seen
from exfam.estimator.storage import Stored, load_folder, model_file_errors, save_folder
from exfam.families import Family, family_from_config, family_to_config
from exfam.training.history import History
from exfam.training.ranks import is_main_rank

if TYPE_CHECKING:
    import torch
FAMILY_KEY = "family_instance"

__all__ = ["Bounded", "from_plain", "load", "load_estimator", "save_estimator", "to_plain"]


def save_estimator(estimator: Any, path: str | PathLike[str], *, overwrite: bool) -> None:
    """Write a fitted estimator: parameters, schema, vocabulary, all members' tensors.

    Parameters are written as they are now, and as they were at the fit, which members are built by.
    Under torchrun the main rank writes; all others, which hold the same, do nothing.
    """
    if not is_main_rank():
        return
    estimator.check_rules()
    state, tensors = estimator._state()
    config = {
        "estimator": estimator.kind,
        "parameters": _plain(estimator.get_params(deep=False)),
        "fitted": _plain(getattr(estimator, "parameters_", estimator.get_params(deep=False))),
        **state,
        "histories": [history.to_config() for history in getattr(estimator, "histories_", [])],
    }
    members = getattr(estimator, "members_", [])
    tensors |= {
        f"{number}.{name}": tensor.detach().cpu().contiguous()
        for number, member in enumerate(members)
        for name, tensor in _distinct(member).items()
    }
    if (seen := getattr(estimator, "seen_", None)) is not None:
        config["seen"] = seen.to_config()
        tensors |= {name: _tensor(hashes) for name, hashes in seen.arrays().items()}
    save_folder(
        path,
        tensors=tensors,
        config=config | {"n_members": len(members)},
        vocabulary=estimator._labels(),
        overwrite=overwrite,
    )


def _tensor(array: np.ndarray) -> "torch.Tensor":
    import torch

    return torch.from_numpy(array)


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: to_plain(name, value) for name, value in parameters.items()}


def load(path: str | PathLike[str]) -> Any:
    """The fitted estimator saved in a folder, of whatever class it is.

    Raises ModelFileError if the folder is damaged, foreign or of a newer version.
    """
    return load_estimator(path)


def load_estimator(path: str | PathLike[str], *, expected: type | None = None) -> Any:
    """The estimator saved in a folder; ModelFileError if it is not an `expected` one."""
    from exfam.estimator.saving import Bounded

    stored = load_folder(path)
    # Every byte is as it was saved, but another version of exfam or another program may have.
    with model_file_errors(path):
        kind = stored.config.get("estimator")
        if kind not in REGISTRY:
            raise ModelFileError(
                f"`path` must hold an estimator of this version, got {kind!r} in {path}. Upgrade "
                "exfam."
            )
        kind_class = class_of(kind)
        if expected not in (None, kind_class):
            raise ModelFileError(
                f"`path` must hold a saved {expected.__name__}, got {kind_class.__name__} in "
                f"{path}. Use {kind_class.__name__}.load or exfam.load."
            )
        with Bounded(stored.tensors):
            return _restore(kind_class, stored)


def _restore(kind_class: type, stored: Stored) -> Any:
    config = stored.config
    parameters, fitted = (
        {name: from_plain(value) for name, value in stored_parameters.items()}
        # Older files have those alone that were set when they were written.
        for stored_parameters in (config["parameters"], config.get("fitted", config["parameters"]))
    )
    estimator: Any = kind_class(**fitted)
    estimator.parameters_ = estimator.get_params(deep=False)
    # Before the parameters are checked: it says which module has a family that is not registered.
    estimator._restore(config, stored.tensors, stored.vocabulary)
    estimator.check_rules()
    if "seen" in config:  # older versions kept no hashes
        arrays = {name: array.numpy() for name, array in stored.tensors.items() if "seen" in name}
        estimator.seen_ = Seen.from_config(config["seen"], arrays)
    if config["histories"]:
        estimator.histories_ = [History.from_config(history) for history in config["histories"]]
    members = []
    for number in range(_n_members(config, stored.tensors)):
        member = estimator._restored_member(config)
        prefix = f"{number}."
        tensors = {
            name.removeprefix(prefix): tensor
            for name, tensor in stored.tensors.items()
            if name.startswith(prefix)
        }
        state = {name: tensors[first] for name, first in _first_names(member).items()}
        member.load_state_dict(state)
        member.eval()
        members.append(member)
    if members:
        estimator.members_ = members
    estimator.set_params(**parameters)
    estimator.check_rules()
    return estimator


def _n_members(config: dict[str, Any], tensors: "Mapping[str, torch.Tensor]") -> int:
    n = config["n_members"]
    stored = {name.partition(".")[0] for name in tensors if name.partition(".")[0].isdigit()}
    if type(n) is not int or n < 0 or stored - {str(number) for number in range(min(n, 10_000))}:
        raise ValueError(f"n_members is {n!r}, with tensors of {len(stored)}")
    return n


def _first_names(member: "torch.nn.Module") -> dict[str, str]:
    """Each tensor's name -> the first name of the same tensor: shared ones are stored once."""
    first: dict[tuple[int, tuple[int, ...]], str] = {}
    return {
        name: first.setdefault((tensor.data_ptr(), tuple(tensor.shape)), name)
        if tensor.numel()
        else name
        for name, tensor in member.state_dict().items()
    }


def _distinct(member: "torch.nn.Module") -> "dict[str, torch.Tensor]":
    state = member.state_dict()
    return {name: state[name] for name in dict.fromkeys(_first_names(member).values())}


# Beyond what is stored: masks, positions and tables that models compute, and steps of doing so.
_SPARE_NUMBERS, _SPARE_STEPS = 50_000_000, 8_000
_COPIES, _STEPS = 8, 500
# Operations that are given a length rather than a shape.
_RANGES = tuple(
    getattr(operation, overload)
    for operation in (torch.ops.aten.arange, torch.ops.aten.linspace, torch.ops.aten.eye)
    for overload in operation.overloads()
    if not overload.endswith("out")
)


def to_plain(name: str, value: Any) -> Any:
    """A constructor parameter as JSON. Raises ExfamError for what JSON cannot hold.

    >>> to_plain("embed_dim", np.int64(8))
    8
    """
    if isinstance(value, Family):
        return {FAMILY_KEY: family_to_config(value)}
    if isinstance(value, dict):
        if other := [key for key in value if not isinstance(key, str)]:
            raise ExfamError(
                f"`{name}` must have texts as keys to be saved, got {other[0]!r}, which JSON turns "
                "into a text."
            )
        return {key: to_plain(name, part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [to_plain(name, part) for part in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ExfamError(
        f"`{name}` must be plain data or a family to be saved, got {type(value).__name__}."
    )


def from_plain(value: Any) -> Any:
    """The parameter that `to_plain` wrote; lists come back as tuples.

    >>> from_plain({"stars": to_plain("family", "poisson")})
    {'stars': 'poisson'}
    """
    if isinstance(value, dict) and FAMILY_KEY in value:
        return family_from_config(value[FAMILY_KEY])
    if isinstance(value, dict):
        return {key: from_plain(part) for key, part in value.items()}
    return tuple(from_plain(part) for part in value) if isinstance(value, list) else value


class Bounded(TorchDispatchMode):
    """Within it, tensors have as many numbers together as a model of these tensors may have.

    Raises ValueError before more is allocated, and where building takes too many steps.

    >>> with Bounded({"weight": torch.zeros(3)}):
    ...     torch.zeros(2)
    tensor([0., 0.])
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.numbers = _SPARE_NUMBERS + _COPIES * sum(tensor.numel() for tensor in tensors.values())
        self.steps = _SPARE_STEPS + _STEPS * len(tensors)

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run one operation of torch, if its result is within the bound."""
        wanted = max((_size(argument) for argument in args), default=0)
        if func in _RANGES:
            wanted = int(max(abs(argument) for argument in args))
        self.steps -= 1
        if wanted > self.numbers or self.steps < 0:
            raise ValueError("a configuration of a far larger model than its tensors are of")
        result = func(*args, **(kwargs or {}))
        if wanted and isinstance(result, torch.Tensor):
            self.numbers -= result.numel()
        return result


def _size(argument: Any) -> int:
    """How many numbers a tensor of such a shape has."""
    if isinstance(argument, list | tuple) and all(type(length) is int for length in argument):
        return math.prod(max(length, 1) for length in argument)
    return 0
