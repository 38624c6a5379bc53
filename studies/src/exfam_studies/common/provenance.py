"""Where a figure comes from: the settings of its model, and the run that computed it."""

import inspect
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from exfam import __version__
from exfam.estimator.plain import to_plain
from exfam.estimator.rules import listed
from exfam.families import Family

_PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "numba")
# How a fit is shown, and what every row has another value of anyway.
_WITHOUT_EFFECT = ("progress", "seed")


@dataclass(frozen=True, kw_only=True)
class Run:
    """When, with what and on which machine figures were computed.

    `commit`: of the code, "+changes" where files differed from it; `date`: of the end, in UTC
    `remark`: what a reader has to know, such as that the code has changed since
    """

    commit: str | None
    date: str
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: str = ""
    remark: str = ""


def this_run() -> Run:
    """The run at hand."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    changes = commit and _git("status", "--porcelain", "--untracked-files=no", "--", ".")
    versions = {"python": platform.python_version(), "exfam": __version__}
    return Run(
        commit=f"{commit}+changes" if changes else commit or None,
        date=datetime.now(UTC).date().isoformat(),
        versions=versions | {package: version(package) for package in _PACKAGES},
        machine=f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
    )


def changed_parameters(estimator: Any) -> dict[str, Any]:
    """The estimator's class and parameters that differ from the defaults, but seed and progress."""
    signature = inspect.signature(type(estimator).__init__).parameters
    changed = {
        name: repr(value) if isinstance(value, Family) else to_plain(name, value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in _WITHOUT_EFFECT and not _is_same(value, signature[name].default)
    }
    return {"estimator": type(estimator).__name__, **changed}


def _is_same(value: Any, default: Any) -> bool:
    if isinstance(value, str | list | tuple) and isinstance(default, tuple):
        return listed(value) == default
    return type(value) is type(default) and repr(value) == repr(default)


def _git(*words: str) -> str:
    folder = Path(__file__).parents[1]
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    text = listed.read_text(encoding="utf-8") if listed.is_file() else ""
    name = re.search(r"model name\s*:\s*(.+)", text)
    return name[1].strip() if name else platform.processor() or platform.machine()
