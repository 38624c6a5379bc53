import os
from pathlib import Path

# One thread: small tensors gain nothing from more, and equal bits need an equal thread count.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import coverage
import hypothesis
import pytest

hypothesis.settings.register_profile("exfam", deadline=None, derandomize=True)
hypothesis.settings.load_profile("exfam")


def pytest_addoption(parser):
    parser.addoption(
        "--check-raises",
        action="store_true",
        help="fail if a raise statement of exfam was never reached (needs --cov=exfam)",
    )


UNREACHED = pytest.StashKey[list[str]]()


def pytest_sessionfinish(session):
    config = session.config
    if not config.getoption("--check-raises") or hasattr(config, "workerinput"):
        return
    from house.raises import all_unreached

    # Of all processes that ran tests: pytest-cov has put their measurements together by now.
    data = coverage.CoverageData(config.rootpath / ".coverage")
    data.read()
    config.stash[UNREACHED] = all_unreached(data)
    if config.stash[UNREACHED] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    for place in config.stash.get(UNREACHED, []):
        terminalreporter.write_line(f"no test reaches the raise statement at {place}", red=True)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of public data sets; tests that need one are skipped where it is not."""
    folder = os.environ.get("EXFAM_DATA")
    if not folder:
        pytest.skip("EXFAM_DATA is not set: it names the folder of public data sets")
    if not Path(folder).is_dir():
        pytest.fail(f"EXFAM_DATA must name a folder, got {folder!r}")
    return Path(folder)
