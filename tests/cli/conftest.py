import pytest

from cli.cases import COLUMNS, SMALL, ratings, write_csv


@pytest.fixture
def run(capfd):
    """Runs a command: its status, what it wrote to stdout and to stderr."""
    # Not above: a conftest of a folder that pytest is given comes before `change_imports`.
    from exfam import cli

    def run_command(*words):
        status = cli.main([str(word) for word in words])
        result = capfd.readouterr()
        return status, result.out, result.err

    return run_command


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with `ratings.csv` and a small `model` of it, both of which are only read."""
    from exfam import cli

    folder = tmp_path_factory.mktemp("ratings")
    file = write_csv(folder / "ratings.csv", ratings())
    words = [*COLUMNS, "--value", "stars", "--family", "ordinal(n=5, start=1)", *SMALL]
    cli.main(["fit", str(file), *words, "--max-epochs", "2", "-o", str(folder / "model")])
    return folder
