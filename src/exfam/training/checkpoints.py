"""Checkpoints: where a fit stands, in files that are whole or not there.

Every save writes one new file, a generation, whose name holds its checksum; the one before it stays
until the next save. So a fit killed at any moment, or a file damaged later, leaves one to go on
from. Arrays are stored as safetensors, all else as JSON in the same file.
"""

import hashlib
import json
import os
import re
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from exfam.checks import CheckpointError, check_path, check_positive
from exfam.files import write_atomically

_FORMAT = 1
_NAME = re.compile(r"generation-(\d+)-([0-9a-f]{64})\.safetensors")
# Saving at epoch ends may cost a twentieth of the time at most.
_SAVING_PATIENCE = 20.0


@dataclass(frozen=True)
class Checkpoint:
    """Where a fit keeps its checkpoints, and what it must share with the fit that left them.

    `folder`: made if it is not there; one fit each
    `seconds`: within an epoch, time between saves (default 30.0); 0 saves after every step
    `identity`: plain JSON naming what the weights' shapes do not show, such as dropout
    """

    folder: str | os.PathLike[str]
    seconds: float = 30.0
    identity: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_path("checkpoint", self.folder)
        check_positive("seconds", self.seconds, zero=True)


class CheckpointFolder:
    """The generations of one fit. `fingerprint` names, as plain JSON, what makes it this fit."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        fingerprint: Mapping[str, Any],
        seconds: float = 30.0,
    ) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise CheckpointError(f"`checkpoint` must be a folder, got a file at {self.folder}.")
        self._fingerprint = json.loads(json.dumps({"checkpoint format": _FORMAT, **fingerprint}))
        self._seconds = seconds
        self._saved_at = time.monotonic()
        self._saving_took = 0.0
        self._number = 0
        self._intact: Path | None = None

    @classmethod
    def of(
        cls, given: Checkpoint | str | os.PathLike[str], *, fingerprint: Mapping[str, Any]
    ) -> "CheckpointFolder":
        """The folder that a user names, of fits that also share the checkpoint's identity."""
        checkpoint = given if isinstance(given, Checkpoint) else Checkpoint(given)
        facts = {**fingerprint, **checkpoint.identity}
        return cls(checkpoint.folder, fingerprint=facts, seconds=checkpoint.seconds)

    def due(self, *, epoch_end: bool = False) -> bool:
        """Whether it is time to save: after `seconds`, at an epoch's end as soon as it is cheap."""
        wait = self._seconds
        if epoch_end:
            wait = min(wait, _SAVING_PATIENCE * self._saving_took)
        return time.monotonic() - self._saved_at >= wait

    def save(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """Write a new generation; the last intact one stays beside it, older ones go.

        Raises CheckpointError if it cannot be written, as on a full disk.
        """
        started = time.monotonic()
        text = json.dumps({"fingerprint": self._fingerprint, "facts": facts})
        whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
        data = safetensors.numpy.save(whole, metadata={"exfam": text})
        self._number += 1
        name = f"generation-{self._number:06d}-{hashlib.sha256(data).hexdigest()}.safetensors"
        try:
            written = write_atomically(self.folder / name, data)
        except OSError as error:
            raise CheckpointError(
                f"`checkpoint` must be where {len(data)} bytes can be written, got {self.folder}: "
                f"{error.strerror}. Free some space, or use another folder."
            ) from error
        for path in self._generations():
            if path not in (written, self._intact):
                path.unlink()
        self._intact = written
        self._saved_at = time.monotonic()
        self._saving_took = self._saved_at - started

    def load(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """Arrays and facts of the newest intact generation; None where there are none.

        Warns if a newer generation is damaged. Raises CheckpointError if all are, or if they belong
        to another fit.
        """
        for path in self._files():
            if path.name.startswith(".generation-"):  # a file that a killed fit left unfinished
                path.unlink()
        paths = self._generations()
        for path in paths:
            if _is_intact(path):
                return self._read(path)
            warnings.warn(
                f"Checkpoint {path} is damaged; looking for the one before it.", stacklevel=2
            )
        if paths:
            raise CheckpointError(
                f"`checkpoint` must hold an intact checkpoint, got only damaged ones in "
                f"{self.folder}. Delete the folder to start anew."
            )
        return None

    def _generations(self) -> list[Path]:
        """The newest first."""
        numbered = [
            (match, path) for path in self._files() if (match := _NAME.fullmatch(path.name))
        ]
        numbered.sort(key=lambda pair: int(pair[0][1]), reverse=True)
        if numbered:
            self._number = max(self._number, int(numbered[0][0][1]))
        return [path for _, path in numbered]

    def _files(self) -> list[Path]:
        return list(self.folder.iterdir()) if self.folder.is_dir() else []

    def _read(self, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        with safetensors.safe_open(path, framework="numpy") as file:
            stored = json.loads(file.metadata()["exfam"])
            self._check_fingerprint(stored["fingerprint"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        self._intact = path
        return arrays, stored["facts"]

    def _check_fingerprint(self, stored: Mapping[str, Any]) -> None:
        def said(facts: Mapping[str, Any], name: str) -> str:
            return repr(facts[name]) if name in facts else "absent"

        own = self._fingerprint
        differing = [
            f"{name} is {said(stored, name)} there and {said(own, name)} here"
            for name in dict.fromkeys([*own, *stored])
            if stored.get(name) != own.get(name)
        ]
        # Other shapes follow from other parameters.
        differing.sort(key=lambda text: text.startswith("shape of"))
        if differing:
            more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
            raise CheckpointError(
                f"`checkpoint` must belong to this fit, got one of another fit in {self.folder}: "
                f"{'; '.join(differing[:3])}{more}. Use another folder, or delete it to start anew."
            )


def _is_intact(path: Path) -> bool:
    match = _NAME.fullmatch(path.name)
    with path.open("rb") as file:
        return match is not None and hashlib.file_digest(file, "sha256").hexdigest() == match[2]
