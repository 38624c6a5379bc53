"""Files as they come, on the command line: what is found is said, what is given is kept."""

import numpy as np
import pytest

from exfam import load
from exfam.reading.prepared import open_prepared

COLUMNS = ["--group", "user", "--item", "film", "--value", "stars"]
LEVELS = [*COLUMNS, "--model", "latent-factor", "--parts", "values", "--dim", "0"]


def rows(decimal, missing):
    random = np.random.default_rng(0)
    films = ["Caf\u00e9", "Heat", "Alien"]
    lines = ["user;film;stars"]
    for user in range(20):
        for film in films:
            stars = missing if random.random() < 0.1 else f"{random.normal(3, 1):.2f}"
            lines.append(f"{user};{film};{stars.replace('.', decimal)}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "clean.csv").write_text(rows(".", ""), "utf-8")
    (folder / "messy.csv").write_text(rows(",", "-999"), "latin-1")
    return folder


@pytest.mark.filterwarnings("default")
def test_what_is_found_is_said_in_a_line_and_what_is_given_is_kept(run, files, tmp_path):
    given = ["--missing", "-999", "unknown", "--missing", "?"]
    status, _, err = run("fit", files / "messy.csv", *LEVELS, *given[:2], "-o", tmp_path / "a")
    assert status == 0 and "read as latin-1 ('Caf\u00e9'), decimal comma" in err
    assert "Say so by --file-encoding latin-1, --decimal ,, or otherwise" in err
    said = ["--file-encoding", "latin-1", "--decimal", ",", "--thousands", ""]
    words = [*LEVELS, *said, "--missing", "-999", "--missing", "?"]
    status, _, err = run("fit", files / "messy.csv", *words, "-o", tmp_path / "b")
    assert status == 0 and "read as" not in err
    model = load(tmp_path / "b")
    assert (model.file_encoding, model.decimal, model.thousands) == ("latin-1", ",", "")
    assert list(model.missing) == [-999.0, "?"]
    clean, _, _ = run("fit", files / "clean.csv", *LEVELS, "-o", tmp_path / "c")
    assert clean == 0
    of_clean = load(tmp_path / "c").score(files / "clean.csv")
    assert of_clean == model.score(files / "messy.csv")
    status, out, err = run("score", tmp_path / "b", files / "messy.csv", "--format", "csv")
    assert status == 0 and "read as" not in err
    status, again, _ = run(
        "score", tmp_path / "b", files / "clean.csv", "--format", "csv",
        "--file-encoding", "utf-8", "--decimal", ".",
    )  # fmt: skip
    assert status == 0 and again == out


def test_prepare_takes_the_same_options(run, files, tmp_path):
    said = ["--file-encoding", "latin-1", "--decimal", ",", "--missing", "-999"]
    words = [*COLUMNS, *said, "-o", tmp_path / "folder"]
    status, _, err = run("prepare", files / "messy.csv", *words)
    assert status == 0 and "read as" not in err
    groups = open_prepared(tmp_path / "folder")
    assert not groups.observed.all() and "Caf\u00e9" in groups.vocabulary["item"].tolist()


def test_tables_take_the_same_options(run, files, tmp_path):
    words = ["--model", "table-regressor", "--response", "stars", "--ignore", "user", "--fast"]
    words += ["--base", "none", "--max-epochs", "1", "--missing", "-999", "--decimal", ","]
    words += ["--file-encoding", "latin-1", "-o", tmp_path / "model"]
    status, _, err = run("fit", files / "messy.csv", *words)
    assert status == 0, err
    assert "read as" not in err and "missing" in err
    status, out, err = run("predict", tmp_path / "model", files / "messy.csv", "--format", "csv")
    assert status == 0 and out.count("\n") == 61, err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--decimal", ";"], "`--decimal` must be one of"),
        (["--file-encoding", "latin-0"], "must be the name of an encoding that Python knows"),
        (["--missing", "[[1]]"], "`--missing` must be a number, a text, or a list of such"),
        (["--decimal", "\0"], "`--decimal` must be a mark, such as a comma"),
    ],
)
def test_what_is_no_dialect_is_refused(words, message, refusal, files, tmp_path):
    assert message in refusal("fit", files / "clean.csv", *LEVELS, *words, "-o", tmp_path / "m")
