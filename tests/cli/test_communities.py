"""Models of communities on the command line do what the library does."""

import numpy as np
import pandas as pd
import pytest

from exfam import Community, cli, load
from exfam.simulators import simulate_community

COMMUNITY = simulate_community(46, 3, seed=0)
FRAME = pd.DataFrame(COMMUNITY.columns("rainfall", "soil", "hours"))
FRAME.columns = [name.replace(" ", "") for name in FRAME.columns]
NAMES = ["species1", "species2", "species3"]
SPECIES = [word for name in NAMES for word in ("--species", name)]
FIT = ["--model", "community", *SPECIES, "--effort", "hours", "--correction", "false"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with `sites.csv` and a model of it."""
    folder = tmp_path_factory.mktemp("sites")
    FRAME.assign(note="x").to_csv(folder / "sites.csv", index=False)
    words = ["fit", str(folder / "sites.csv"), *FIT, "--ignore", "note"]
    assert cli.main([*words, "-o", str(folder / "model")]) == 0
    return folder


def test_the_command_fits_what_the_library_fits(folder):
    here = Community(species=NAMES, effort="hours", correction=False).fit(FRAME)
    there = load(folder / "model")
    np.testing.assert_allclose(there.predict_proba(FRAME), here.predict_proba(FRAME))
    assert list(there.species) == NAMES and there.effort == "hours" and not there.correction


def test_answers_are_those_of_the_library(folder, results):
    model, file = load(folder / "model"), folder / "sites.csv"
    scores = results("score", folder / "model", file)
    assert [float(row["others_known"]) for row in scores] == [0.0, 0.25, 0.5, 0.75, 1.0]
    expected = model.scores_by_share(FRAME).values()
    assert [float(row["nats"]) for row in scores] == pytest.approx(list(expected))
    by_row = results("score", folder / "model", file, "--per-row")
    total = sum(float(row["log_prob"]) for row in by_row)
    assert total / (46 * 3) == pytest.approx(float(scores[-1]["nats"]))
    proba = results("predict", folder / "model", file, "--proba", "--of", "species2")
    ours = [float(row["species2"]) for row in proba]
    np.testing.assert_allclose(ours, model.predict_proba(FRAME)[:, 1])
    assert set(results("predict", folder / "model", file)[0]) == {"row", *NAMES}
    terms = results("explain", folder / "model", file, "--rows", "3", "--of", "species1")
    (one,) = model.explain(FRAME.iloc[3:4], of="species1")
    assert sum(float(row["added"]) for row in terms) == pytest.approx(one.eta)
    most = results("explain", folder / "model", file, "--rows", "3", "--top", "1")
    assert len(most) == 3


def test_a_fit_says_what_it_is_of(folder, run, tmp_path):
    words = ["fit", folder / "sites.csv", *FIT, "--ignore", "note", "-o", tmp_path / "model"]
    status, out, err = run(*words, "--format", "csv")
    assert status == 0 and "46 sites, 6 columns" in err
    assert '"community",3,"presence","not tried"' in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "community"], "`--species` must name the columns of species, got none"),
        (["--model", "community", "--species", "zzz"], "`--species` must name columns of `FILE`"),
        ([*FIT, "--checkpoint", "c"], "`--checkpoint` must be left out for a model of communities"),
    ],
)
def test_bad_fits_are_refused(folder, refusal, tmp_path, words, message):
    assert message in refusal("fit", folder / "sites.csv", *words, "-o", tmp_path / "model")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explain", "--rows", "99"], "`--rows` must be sites of the file, 0 .. 45, got '99'"),
        (["predict", "--of", "zzz"], "`--of` must name a species of the fit, got 'zzz'"),
        (["explain", "--of", "zzz"], "`--of` must name species of the fit, got 'zzz'"),
        (["recommend"], "`MODEL` must be of groups, not of communities, got Community"),
    ],
)
def test_bad_answers_are_refused(folder, refusal, words, message):
    command, *more = words
    assert message in refusal(command, folder / "model", folder / "sites.csv", *more)
