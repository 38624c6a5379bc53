"""`exfam doctor` and its self-test."""

import importlib.metadata
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from exfam import EFA, __version__, cli
from exfam.cli import doctor
from exfam.cli import installation as tests
from exfam.kernels import alias


def lines(capsys, status=0):
    assert cli.main(["doctor"]) == status
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out.splitlines()


def without_test(monkeypatch):
    monkeypatch.setattr(doctor, "self_test", lambda: tests.SelfTest(("fit",), (), 0.1))


def test_the_block_has_what_a_bug_report_needs(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    shown = dict(line.split(maxsplit=1) for line in lines(capsys))
    assert shown["exfam"].startswith(__version__)
    assert shown["torch"] == importlib.metadata.version("torch")
    assert str(tmp_path) in shown["data"] and " GB free" in shown["data"]
    assert {"numpy", "Python", "processor", "threads", "GPU", "cache", "[hf]"} <= set(shown)
    assert f"EXFAM_DATA={tmp_path}" in shown["variables"]
    assert shown["self-test"].startswith("passed in ")
    assert all(step.name in shown["self-test"] for step in tests.STEPS)


def test_the_self_test_is_short():
    start = time.perf_counter()
    tested = tests.self_test()
    assert not tested.failure and tested.seconds < 5
    assert time.perf_counter() - start < 50  # it waits for nothing


def test_a_failure_says_where_and_what_to_do(capsys, monkeypatch):
    monkeypatch.setattr(EFA, "score", lambda *_: np.nan)
    *_, outcome, what, where, remedy = lines(capsys, status=1)
    assert "FAILED after: " in outcome and "read a file" in outcome
    assert "cannot fit a model" in what and "the score of a fit is not finite" in what
    assert "installation.py:" in where
    assert "Please report it" in remedy


def broken(monkeypatch, name):
    """Make one step's result wrong."""
    if name == "compile a loop":
        monkeypatch.setattr(alias, "alias_table", lambda _: np.zeros(1))
    elif name == "read a file":
        monkeypatch.setattr(sys.modules["exfam.reading.reader"], "read", lambda *_, **__: [])
    elif name == "save, load and compare":
        changing = iter(np.arange(9.0))
        monkeypatch.setattr(EFA, "predict", lambda *_: next(changing))
    else:
        silent = SimpleNamespace(savefig=lambda _: None)
        monkeypatch.setattr("exfam.plots.histogram", lambda *_, **__: silent)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("compile a loop", "a compiled loop returned another shape"),
        ("read a file", "0 groups were read of 24"),
        ("save, load and compare", "something else once it is saved and loaded"),
        ("draw", "a picture is no PNG file"),
    ],
)
def test_a_wrong_result_is_a_failure(monkeypatch, name, message):
    broken(monkeypatch, name)
    tested = tests.self_test()
    assert message in tested.failure[0]
    assert name not in tested.passed and f"cannot {name}" in tested.failure[0]


def test_a_full_disk_is_a_failure(monkeypatch):
    def full():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tests, "scratch_folder", full)
    assert "No space left on device" in tests.self_test().failure[0]


def test_folders_say_what_is_wrong_with_them(monkeypatch, tmp_path):
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    folders = dict(doctor._folders())
    assert "EXFAM_DATA names no folder" in folders["data"]
    assert doctor._folder(tmp_path / "none").startswith("~/none, ")
    assert doctor._folder(tmp_path / "none").endswith("free, not made yet")
    monkeypatch.setattr("os.access", lambda *_: False)
    assert doctor._folder(tmp_path).endswith("may not be written")
    monkeypatch.delenv("EXFAM_DATA")
    assert "not set" in dict(doctor._folders())["data"]


def test_a_machine_without_a_temporary_folder_is_described(monkeypatch):
    def nowhere():
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    assert "No usable temporary directory" in dict(doctor._folders())["temporary"]
    assert "No usable temporary directory" in tests.self_test().failure[0]


def test_what_is_absent_is_named(monkeypatch, capsys):
    without_test(monkeypatch)
    real = importlib.metadata.version

    def version(name):
        if name in ("tokenizers", "duckdb"):
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    shown = dict(line.split(maxsplit=1) for line in lines(capsys))
    assert shown["[hf]"] == "without tokenizers"
    assert shown["duckdb"] == "absent: install exfam again"


def test_exfam_that_is_not_installed_has_no_requirements(monkeypatch):
    def requires(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    assert doctor._requirements() == ([], {})


def test_gpus_are_named():
    gpu = SimpleNamespace(name="H100", total_memory=80_000_000_000)
    cuda = SimpleNamespace(
        is_available=lambda: True, device_count=lambda: 1, get_device_properties=lambda _: gpu
    )
    torch = SimpleNamespace(cuda=cuda, version=SimpleNamespace(cuda="13.0"))
    assert doctor._gpu(torch) == "H100 (80.0 GB); CUDA 13.0"
    mps = SimpleNamespace(is_available=lambda: True)
    torch.cuda.is_available = lambda: False
    torch.backends = SimpleNamespace(mps=mps)
    assert doctor._gpu(torch) == "Apple's (mps)"


def test_torch_that_cannot_be_loaded_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "cannot be loaded" in dict(doctor._machine())["torch"]
