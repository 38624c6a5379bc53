"""A fit is not lost where its folder cannot be written: it is kept elsewhere, and that is said."""

import errno
import re
import subprocess
import tempfile
from collections import namedtuple
from types import SimpleNamespace

import pytest

from cli.cases import COLUMNS, SMALL, ratings, write_csv
from exfam import EFA, cli, load
from exfam.cli import fit
from exfam.cli import writable as places
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
        "fit": lambda output: ["fit", file, *COLUMNS, *SMALL, *QUICK, "-o", output],
        "fit words": lambda output: ["fit", "words", tmp_path / "corpus.txt", *TINY, "-o", output],
        "prepare": lambda output: ["prepare", file, *COLUMNS, "-o", output],
    }


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A temporary directory of its own."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


@pytest.fixture
def full(tmp_path, monkeypatch):
    """A disk of 64 KiB; where none can be mounted, a folder in which every write fails so."""
    folder = tmp_path / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        is_mounted = False
    if is_mounted:
        (folder / "large").write_bytes(b"x" * (60 << 10))
    else:
        write = storage._write

        def refuse(place, **what):
            if folder in place.parents:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(place, **what)

        monkeypatch.setattr(storage, "_write", refuse)
    yield folder
    if is_mounted:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("command", ["fit", "fit words"])
def test_a_fit_is_kept_elsewhere(words_of, full, temporary, monkeypatch, capsys, command):
    monkeypatch.setattr(places.shutil, "disk_usage", lambda _: Usage(1 << 30, 0, 1 << 30))
    assert cli.main([str(word) for word in words_of[command](full / "model")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "`--output` must be where a model can be written" in line
    kept = re.search(r"The fit is kept in (\S+)\.$", line)[1]
    assert kept.startswith(str(temporary))
    assert load(kept)
    assert not (full / "model").exists()


def test_where_no_folder_has_room_that_is_said(words_of, tmp_path, temporary, monkeypatch, capsys):
    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(storage, "_write", refuse)
    monkeypatch.setenv("HOME", str(tmp_path / "no home"))
    monkeypatch.chdir(tmp_path)
    assert cli.main([str(word) for word in words_of["fit"](tmp_path / "model")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("No other folder has room for it either.")
    assert not list(temporary.glob("exfam-fit-*")) and not list(tmp_path.glob("exfam-fit-*"))


@pytest.mark.parametrize("command", ["fit", "fit words"])
def test_room_is_looked_for_before_the_fit(words_of, tmp_path, monkeypatch, capsys, command):
    monkeypatch.setattr(places.shutil, "disk_usage", lambda _: Usage(1 << 30, 1 << 30, 1000))
    assert cli.main([str(word) for word in words_of[command](tmp_path / "new" / "model")]) == 2
    error = capsys.readouterr().err
    assert re.search(
        "must be on a disk with room for the model, about 0.. MiB, got 0.0 MiB at", error
    )
    assert error.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_large_catalogs_need_more_room(tmp_path, monkeypatch):
    monkeypatch.setattr(places.shutil, "disk_usage", lambda _: Usage(1 << 30, 0, 1 << 26))
    places.check_room(tmp_path / "model", 1000)
    with pytest.raises(places.ExfamError, match="room for the model, about 3,814.9 MiB, got 64.0"):
        places.check_room(tmp_path / "model", 10**9)


@pytest.mark.parametrize("command", ["fit", "fit words", "prepare"])
@pytest.mark.parametrize("name", ["x\udcff", "a" * 300])
def test_a_name_that_no_folder_can_have_is_refused_before_the_fit(
    words_of, tmp_path, monkeypatch, capsys, command, name
):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    lines = {"--output": words_of[command](name)}
    if command != "prepare":
        lines["--checkpoint"] = [*words_of[command]("model"), "--checkpoint", name]
    for option, words in lines.items():
        assert cli.main([str(word) for word in words]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"`{option}` must be a path" in line
    assert set(tmp_path.iterdir()) == before


def test_a_fit_is_kept_where_an_error_is_none_of_ours(words_of, tmp_path, temporary, capsys):
    def save(folder, **_):
        if "odd" in str(folder):
            raise UnicodeEncodeError("utf-8", "odd", 0, 1, "surrogates not allowed")

    with pytest.raises(places.ExfamError, match=f"The fit is kept in {temporary}"):
        places.save_or_keep(SimpleNamespace(save=save), "odd", overwrite=False)


@pytest.mark.parametrize(
    "sizes", [{}, {"embed_dim": 256}, {"embed_dim": 128, "n_layers": 6}, {"ensemble": 2}], ids=str
)
def test_the_size_of_a_model_is_known_before_the_fit(sizes):
    users, movies, _, _ = zip(*ratings(), strict=True)
    model = EFA(group="user", item="movie", max_epochs=1, progress=False, **sizes)
    expected = fit._n_numbers(model, SimpleNamespace(n_items=len(set(movies))))
    model.fit({"user": users, "movie": movies})
    actual = sum(p.numel() for member in model.members_ for p in member.parameters())
    assert 0.6 * actual < expected < 1.1 * actual
