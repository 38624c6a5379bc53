"""A fit is not lost where its folder cannot be written: it is kept elsewhere, and that is said."""

import errno
import re
import tempfile
from collections import namedtuple
from types import SimpleNamespace

import pytest

from cli.cases import COLUMNS, SMALL, ratings, write_csv
from exfam import EFA, load
from exfam.checks import ExfamError
from exfam.cli import fit, scoreboard, writable
from exfam.estimator import storage

QUICK = ("--max-epochs", "1", "--progress", "false")
TINY = ("--dim", "4", "--epochs", "1", "--min-count", "1", "--progress", "false")
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def words_of(tmp_path):
    """What fits a model of each kind into a folder."""
    file = write_csv(tmp_path / "ratings.csv", ratings())
    (tmp_path / "corpus.txt").write_text("a cat sat on a mat\n" * 20)
    return {
        "fit": ["fit", file, *COLUMNS, *SMALL, *QUICK, "-o"],
        "fit words": ["fit", "words", tmp_path / "corpus.txt", *TINY, "-o"],
        "prepare": ["prepare", file, *COLUMNS, "-o"],
    }


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A temporary directory of its own."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


@pytest.fixture
def full(monkeypatch):
    """Makes every write below a folder fail as on a full disk."""
    write = storage._write

    def fill(folder):
        def refuse(path, **what):
            if folder in path.parents:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(path, **what)

        monkeypatch.setattr(storage, "_write", refuse)

    return fill


@pytest.mark.parametrize("command", ["fit", "fit words"])
def test_a_fit_is_kept_elsewhere(words_of, full, temporary, tmp_path, refusal, command):
    full(tmp_path / "full")
    line = refusal(*words_of[command], tmp_path / "full" / "model")
    assert "`--output` must be where a model can be written" in line
    kept = re.search(r"The fit is kept in (\S+)\.$", line)[1]
    assert kept.startswith(str(temporary)) and load(kept)
    assert not (tmp_path / "full" / "model").exists()


def test_where_no_folder_has_room_that_is_said(
    words_of, full, tmp_path, temporary, monkeypatch, refusal
):
    full(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "no home"))
    monkeypatch.chdir(tmp_path)
    line = refusal(*words_of["fit"], tmp_path / "model")
    assert line.endswith("No other folder has room for it either.\n")
    assert not list(temporary.glob("exfam-fit-*")) and not list(tmp_path.glob("exfam-fit-*"))


@pytest.mark.parametrize("command", ["fit", "fit words"])
def test_room_is_looked_for_before_the_fit(words_of, tmp_path, monkeypatch, refusal, command):
    monkeypatch.setattr(writable.shutil, "disk_usage", lambda _: Usage(1 << 30, 1 << 30, 1000))
    line = refusal(*words_of[command], tmp_path / "new" / "model")
    assert re.search("must be on a disk with room .* model, about 0.. MiB, got 0.0 MiB at", line)
    assert not (tmp_path / "new").exists()


def test_large_catalogs_need_more_room_and_folders_must_be_writable(tmp_path, monkeypatch):
    monkeypatch.setattr(writable.shutil, "disk_usage", lambda _: Usage(1 << 30, 0, 1 << 26))
    writable.check_room(tmp_path / "model", 1000)
    with pytest.raises(ExfamError, match="room for the model, about 3,814.9 MiB, got 64.0"):
        writable.check_room(tmp_path / "model", 10**9)
    # Root may write everywhere.
    monkeypatch.setattr(writable.os, "access", lambda path, mode: False)
    with pytest.raises(ExfamError, match="`--output` must lie where you may write, got .*model"):
        writable.check_may_write("--output", tmp_path / "model")


@pytest.mark.parametrize("command", ["fit", "fit words", "prepare"])
@pytest.mark.parametrize("name", ["x\udcff", "a" * 300])
def test_a_name_that_no_folder_can_have_is_refused_before_the_fit(
    words_of, tmp_path, monkeypatch, refusal, command, name
):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    assert "`--output` must be a path" in refusal(*words_of[command], name)
    if command != "prepare":
        line = refusal(*words_of[command], "model", "--checkpoint", name)
        assert "`--checkpoint` must be a path" in line
    assert set(tmp_path.iterdir()) == before


def test_a_fit_is_kept_where_an_error_is_none_of_ours(temporary):
    def save(folder, **_):
        if "odd" in str(folder):
            raise UnicodeEncodeError("utf-8", "odd", 0, 1, "surrogates not allowed")

    with pytest.raises(ExfamError, match=f"The fit is kept in {temporary}"):
        writable.save_or_keep(SimpleNamespace(save=save), "odd", overwrite=False)


@pytest.mark.parametrize(
    "sizes", [{}, {"embed_dim": 256}, {"embed_dim": 128, "n_layers": 6}, {"ensemble": 2}], ids=str
)
def test_the_size_of_a_model_is_known_before_the_fit(sizes):
    users, movies, _, _ = zip(*ratings(), strict=True)
    model = EFA(group="user", item="movie", max_epochs=1, progress=False, **sizes)
    expected = fit._n_numbers(model, SimpleNamespace(n_items=len(set(movies))))
    model.fit({"user": users, "movie": movies})
    tensors = [tensor for member in model.members_ for tensor in member.state_dict().values()]
    actual = sum(tensor.numel() for tensor in tensors)
    assert 0.6 * actual < expected < 1.1 * actual


def test_the_path_of_a_saved_model_is_named_where_its_scores_fail(
    words_of, tmp_path, monkeypatch, refusal
):
    def fail(*_, **__):
        raise ExfamError("Scores must be numbers, got none.")

    monkeypatch.setattr(scoreboard, "scoreboard", fail)
    line = refusal(*words_of["fit"], tmp_path / "model")
    assert f"got none. The model is saved in {tmp_path / 'model'}." in line
    assert (tmp_path / "model").is_dir()
