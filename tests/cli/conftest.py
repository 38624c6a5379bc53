import pytest

from cli.cases import COLUMNS, QUICK, STARS, ratings, table, write_csv


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


@pytest.fixture
def results(run):
    """Runs a command that succeeds: the rows of its CSV."""

    def run_command(*words):
        status, out, err = run(*words, "--format", "csv")
        assert status == 0, err
        return table(out)

    return run_command


@pytest.fixture
def refusal(run):
    """Runs a command that fails with nothing but one line, which is returned."""

    def run_command(*words):
        status, out, err = run(*words)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        return err

    return run_command


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with `ratings.csv` and a small `model` of it, both of which are only read."""
    from exfam import cli

    folder = tmp_path_factory.mktemp("ratings")
    file = write_csv(folder / "ratings.csv", ratings())
    assert cli.main(["fit", str(file), *COLUMNS, *STARS, *QUICK, "-o", str(folder / "model")]) == 0
    return folder
