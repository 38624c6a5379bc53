"""`exfam doctor`: what a bug report needs, in one block of plain text."""

import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exfam.cli.installation import SelfTest, self_test
from exfam.cli.options import Form

_WIDTH = 12
_VARIABLES = (
    "EXFAM_DATA", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMBA_CACHE_DIR",
    "CUDA_VISIBLE_DEVICES", "MPLBACKEND",
)  # fmt: skip
_EXTRA = re.compile(r"""extra\s*==\s*['"](\w+)['"]""")
_NOTES = """The block goes to stdout. The status is 0 where the self-test passes, and 1 where it
fails: the last lines then say what failed and what to do."""
Line = tuple[str, str]


def examine() -> tuple[list[Line], SelfTest]:
    """Names and texts of all that is looked at, and what came of the self-test."""
    tested = self_test()
    lines = [*_installed(), *_machine(), *_folders(), *_extras()]
    return [*lines, *_outcome(tested)], tested


def _installed() -> Iterator[Line]:
    from exfam import __version__

    yield "exfam", f"{__version__} in {_short(Path(__file__).parents[1])}"
    yield "Python", f"{platform.python_version()} in {_short(sys.executable)}"
    yield "system", platform.platform()
    core, _ = _requirements()
    for name in core:
        yield name, _version(name) or "absent: install exfam again"


def _requirements() -> tuple[list[str], dict[str, list[str]]]:
    """Distributions that exfam requires, always and by extra; none where it is not installed."""
    core: list[str] = []
    extras: dict[str, list[str]] = {}
    try:
        required = importlib.metadata.requires("exfam") or []
    except importlib.metadata.PackageNotFoundError:
        required = []
    for text in required:
        match = re.match(r"[\w.-]+", text)
        extra = _EXTRA.search(text)
        assert match is not None
        (core if extra is None else extras.setdefault(extra[1], [])).append(match[0])
    return core, extras


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _machine() -> Iterator[Line]:
    yield "processor", f"{platform.machine()}, {_cores()}"
    yield "memory", _memory()
    try:
        import torch
    except ImportError as error:
        yield "torch", f"cannot be loaded: {error}"
        return
    yield "threads", f"{torch.get_num_threads()} of torch"
    yield "GPU", _gpu(torch)


def _cores() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{os.cpu_count()} cores, {usable} usable"


def _memory() -> str:
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return "not known"
    return _gigabytes(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _gpu(torch: Any) -> str:
    if torch.cuda.is_available():
        devices = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
        listed = ", ".join(f"{gpu.name} ({_gigabytes(gpu.total_memory)})" for gpu in devices)
        return f"{listed}; CUDA {torch.version.cuda}"
    return "Apple's (mps)" if torch.backends.mps.is_available() else "none that torch can use"


def _folders() -> Iterator[Line]:
    from exfam.reading.public_sets.published import cache_folder

    yield "cache", _folder(cache_folder())
    named = os.environ.get("EXFAM_DATA", "")
    if named and not Path(named).is_dir():
        yield "data", f"{named}: EXFAM_DATA names no folder. Make it, or unset EXFAM_DATA"
    else:
        yield "data", _folder(Path(named)) if named else "EXFAM_DATA is not set: the cache"
    yield "temporary", _temporary()
    given = [f"{name}={value}" for name in _VARIABLES if (value := os.environ.get(name))]
    yield "variables", ", ".join(given) or "none of ours"


def _temporary() -> str:
    try:
        return _folder(Path(tempfile.gettempdir()))
    except OSError as error:
        return f"none: {error}"


def _folder(path: Path) -> str:
    """A folder, the space on its disk, and whether it is there and can be written."""
    above = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
    marks = "" if path.exists() else ", not made yet"
    marks += "" if os.access(above, os.W_OK) else ", may not be written"
    return f"{_short(path)}, {_gigabytes(shutil.disk_usage(above).free)} free{marks}"


def _extras() -> Iterator[Line]:
    for extra, names in _requirements()[1].items():
        absent = [name for name in names if _version(name) is None]
        yield f"[{extra}]", f"without {', '.join(absent)}" if absent else "present"


def _outcome(tested: SelfTest) -> Iterator[Line]:
    steps = ", ".join(tested.passed)
    if not tested.failure:
        yield "self-test", f"passed in {tested.seconds:.1f} CPU s: {steps}"
        return
    yield "self-test", f"FAILED after: {steps or 'nothing'}"
    for line in tested.failure:
        yield "", line


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"


def _short(path: Any) -> str:
    """A path without the name of who reports."""
    text, home = str(path), os.path.expanduser("~")
    return f"~{text[len(home) :]}" if text.startswith(f"{home}{os.sep}") else text


def _run(chosen: Any) -> int:
    lines, tested = examine()
    for name, text in lines:
        print(f"{name:<{_WIDTH}}  {text}")
    return 1 if tested.failure else 0


DOCTOR = Form(
    "doctor",
    "Versions, machine, folders, extras and a self-test, for a bug report",
    [],
    run=_run,
    example="exfam doctor",
    notes=_NOTES,
)
