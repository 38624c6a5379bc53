"""Fitted estimators to folders and back. Models of words are saved without torch."""

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from exfam.checks import ModelFileError
from exfam.estimator.plain import from_plain, to_plain
from exfam.estimator.record import record_of, restore_record
from exfam.estimator.registry import REGISTRY, class_of
from exfam.estimator.storage import Stored, load_folder, model_file_errors, save_folder
from exfam.training.history import History
from exfam.training.ranks import is_main_rank

if TYPE_CHECKING:
    import torch


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
    config["record"] = record_of(estimator)
    members = getattr(estimator, "members_", [])
    for number, member in enumerate(members):
        stored = member.state_dict()
        for name in dict.fromkeys(_first_names(member).values()):
            tensors[f"{number}.{name}"] = stored[name].detach().cpu().contiguous()
    if (seen := getattr(estimator, "seen_", None)) is not None:
        import torch

        config["seen"] = seen.to_config()
        tensors |= {name: torch.from_numpy(hashes) for name, hashes in seen.arrays().items()}
    save_folder(
        path,
        tensors=tensors,
        config=config | {"n_members": len(members)},
        vocabulary=estimator._labels(),
        overwrite=overwrite,
    )


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: to_plain(name, value) for name, value in parameters.items()}


def load(path: str | PathLike[str]) -> Any:
    """The fitted estimator saved in a folder, of whatever class it is.

    Raises ModelFileError if the folder is damaged, foreign or of a newer version.
    """
    return load_estimator(path)


def load_estimator(path: str | PathLike[str], *, expected: type | None = None) -> Any:
    """The estimator saved in a folder; ModelFileError if it is not an `expected` one."""
    from exfam.estimator.bounds import Bounded

    stored = load_folder(path)
    # Every byte is as it was saved, but another version of exfam or another program may have.
    with model_file_errors(path):
        kind: Any = stored.config.get("estimator")
        # A class of another package is loaded by itself alone.
        is_own = expected is not None and getattr(expected, "kind", "") == kind
        if not is_own and kind not in REGISTRY:
            raise ModelFileError(
                f"`path` must hold an estimator of this version, got {kind!r} in {path}. Upgrade "
                "exfam, or call `load` of the class if another package has it."
            )
        kind_class: Any = expected if is_own else class_of(kind)
        if expected not in (None, kind_class):
            raise ModelFileError(
                f"`path` must hold a saved {expected.__name__}, got {kind_class.__name__} in "
                f"{path}. Use {kind_class.__name__}.load or exfam.load."
            )
        with Bounded(stored.tensors):
            return _restore(kind_class, stored)


def _restore(kind_class: type, stored: Stored) -> Any:
    config = stored.config
    # Older files have those parameters alone that were set when they were written.
    fitted = config.get("fitted", config["parameters"])
    estimator: Any = kind_class(**{name: from_plain(value) for name, value in fitted.items()})
    estimator.parameters_ = estimator.get_params(deep=False)
    # Before the parameters are checked: it says which module has a family that is not registered.
    estimator._restore(config, stored.tensors, stored.vocabulary)
    estimator.check_rules()
    if "seen" in config:  # older versions kept no hashes
        from exfam.estimator.seen import Seen

        arrays = {name: array.numpy() for name, array in stored.tensors.items() if "seen" in name}
        estimator.seen_ = Seen.from_config(config["seen"], arrays)
    restore_record(estimator, config.get("record", {}))
    if config["histories"]:
        estimator.histories_ = [History.from_config(history) for history in config["histories"]]
    members = []
    for number in range(_n_members(config, stored.tensors)):
        member = estimator._restored_member(config | {"member": number})
        names = _first_names(member)
        of_member = {name: f"{number}.{first}" for name, first in names.items()}
        # What older files lack the module fills in, or says that it is missing.
        member.load_state_dict(
            {name: stored.tensors[own] for name, own in of_member.items() if own in stored.tensors}
        )
        member.eval()
        members.append(member)
    if members:
        estimator.members_ = members
    estimator.set_params(**{k: from_plain(value) for k, value in config["parameters"].items()})
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
