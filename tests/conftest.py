import os
from pathlib import Path

# One thread: small tensors gain nothing from more, and equal bits need an equal thread count.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import hypothesis
import pytest

hypothesis.settings.register_profile("exfam", deadline=None, derandomize=True)
hypothesis.settings.load_profile("exfam")

RAISES = "test_raises_are_reached.py"


def pytest_addoption(parser):
    parser.addoption(
        "--check-raises",
        action="store_true",
        help="after all other tests, fail if a raise statement of exfam was never reached "
        "(run the whole suite under `coverage run -m pytest`)",
    )


def pytest_collection_modifyitems(items):
    # What the others have reached is known only once they have run.
    items.sort(key=lambda item: item.path.name == RAISES)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of public data sets; tests that need one are skipped where it is not."""
    folder = os.environ.get("EXFAM_DATA")
    if not folder:
        pytest.skip("EXFAM_DATA is not set: it names the folder of public data sets")
    if not Path(folder).is_dir():
        pytest.fail(f"EXFAM_DATA must name a folder, got {folder!r}")
    return Path(folder)
