import errno
import os
from pathlib import Path

# One thread: small tensors gain nothing from more, and equal bits need an equal thread count.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import hypothesis
import pytest

hypothesis.settings.register_profile("exfam", deadline=None, derandomize=True)
hypothesis.settings.load_profile("exfam")


def pytest_addoption(parser):
    parser.addoption(
        "--check-raises",
        action="store_true",
        help="fail if a raise statement of exfam was never reached",
    )


UNREACHED = pytest.StashKey[list[str]]()
REACHED = pytest.StashKey[set[str]]()


def pytest_configure(config):
    # Only now are the folders of tests on the path.
    import shape_checks
    from house import collected, raises
    from house.imports import change_imports

    changes = [shape_checks.decorate]
    if config.getoption("--check-raises"):
        changes.append(raises.mark)
        config.stash[REACHED] = raises.REACHED
    change_imports(changes)
    config.pluginmanager.register(collected)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """What one of several processes reached."""
    node.config.stash.get(REACHED, set()).update(node.workeroutput.get("reached", ()))


def pytest_sessionfinish(session):
    config = session.config
    if not config.getoption("--check-raises"):
        return
    if hasattr(config, "workerinput"):
        config.workeroutput["reached"] = sorted(config.stash[REACHED])
        return
    from house.raises import unreached

    config.stash[UNREACHED] = unreached(config.stash[REACHED])
    if config.stash[UNREACHED] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    for line in config.stash.get(UNREACHED, []):
        terminalreporter.write_line(f"no test reaches the raise statement at {line}", red=True)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of public data sets; tests that need one are skipped where it is not."""
    folder = os.environ.get("EXFAM_DATA")
    if not folder:
        pytest.skip("EXFAM_DATA is not set: it names the folder of public data sets")
    if not Path(folder).is_dir():
        pytest.fail(f"EXFAM_DATA must name a folder, got {folder!r}")
    return Path(folder)


@pytest.fixture
def full_disk():
    """Stands for a function that writes, and fails as it does on a full disk."""

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    return refuse


@pytest.fixture
def families():
    """Families that a test registers go again."""
    from exfam.families import FAMILIES

    before = dict(FAMILIES)
    yield
    FAMILIES.clear()
    FAMILIES.update(before)


@pytest.fixture(scope="module")
def few_trees():
    """Forests of tables that the tests of a file fit are small."""
    from small_forests import small_forests

    with small_forests():
        yield
