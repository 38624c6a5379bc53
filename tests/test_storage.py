import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

import exfam
from exfam.checks import ExfamError, ModelFileError
from exfam.estimator import folders, storage
from exfam.estimator.storage import FORMAT_VERSION, load_arrays, load_folder, save_folder

FILES = ("config.json", "model.safetensors", "vocabulary.parquet")


def model(seed=0):
    generator = torch.Generator().manual_seed(seed)
    shared = torch.randn(3, 4, generator=generator)
    return {
        "tensors": {
            "weight": shared,
            "tied": shared,
            "turned": shared.T,
            "scalar": torch.tensor(1.5),
            "half": shared.to(torch.bfloat16),
            "count": torch.arange(3),
            "none": torch.empty(0, 2),
        },
        "config": {"name": "efa", "sizes": [1, 2], "nested": {"rate": 0.1 + 0.2}, "none": None},
        "vocabulary": {"item": np.array(["a", "b"]), "year": np.array([1999, 2000])},
    }


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    save_folder(path, **model())
    return path


def same(stored, expected):
    assert stored.config == expected["config"]
    assert stored.tensors.keys() == expected["tensors"].keys()
    for name, tensor in expected["tensors"].items():
        assert stored.tensors[name].dtype == tensor.dtype
        assert torch.equal(stored.tensors[name], tensor)
    for name, labels in expected["vocabulary"].items():
        assert stored.vocabulary[name].dtype == labels.dtype
        assert stored.vocabulary[name].tolist() == labels.tolist()
    return True


# Round trip


def test_a_model_comes_back_exactly(saved):
    assert same(load_folder(saved), model())
    assert sorted(os.listdir(saved)) == sorted(FILES)
    assert os.listdir(saved.parent) == ["model"]


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["", "a b", "caf\u00e9", "\U0001f600", "1", "True", "nan", 'quo"te\n']),
        np.array([0, -1, 2**62]),
        np.array([7], dtype=np.uint8),
        np.array([True, False]),
        np.array([0.1, -0.0, 1e300, np.inf]),
        np.array([0.1], dtype=np.float32),
        np.array(["2020-01-01", "1969-07-20"], dtype="datetime64[D]"),
        np.array(["2020-01-01T00:00:00.000000001"], dtype="datetime64[ns]"),
        np.array(["1", 1, 1.0, True, "True", False, 2**70], dtype=object),
        np.array([np.int64(3), np.str_("x")], dtype=object),
        np.array([], dtype="<U1"),
        np.array([], dtype=object),
    ],
    ids=str,
)
def test_labels_keep_value_and_type(tmp_path, labels):
    vocabulary = {"first": np.array(["x"]), "column": labels}
    save_folder(tmp_path / "model", tensors={}, config={}, vocabulary=vocabulary)
    loaded = load_folder(tmp_path / "model").vocabulary["column"]
    assert loaded.dtype == labels.dtype
    assert loaded.tolist() == labels.tolist()
    expected = [each.item() if isinstance(each, np.generic) else each for each in labels.tolist()]
    assert [type(each) for each in loaded.tolist()] == [type(each) for each in expected]


def test_missing_numbers_are_labels_too(tmp_path):
    vocabulary = {"column": np.array([np.nan, 1.0]), "day": np.array(["NaT"], "datetime64[D]")}
    save_folder(tmp_path / "model", tensors={}, config={}, vocabulary=vocabulary)
    loaded = load_folder(tmp_path / "model").vocabulary
    np.testing.assert_array_equal(loaded["column"], vocabulary["column"])
    assert np.isnat(loaded["day"]).all()


def test_no_vocabulary_is_a_vocabulary(tmp_path):
    save_folder(tmp_path / "deep" / "model", tensors={}, config={}, vocabulary={})
    assert load_folder(str(tmp_path / "deep" / "model")).vocabulary == {}


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_all_files_follow_the_umask(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        save_folder(tmp_path / "model", **model())
    finally:
        os.umask(before)
    modes = {name: (tmp_path / "model" / name).stat().st_mode & 0o777 for name in FILES}
    assert modes == dict.fromkeys(FILES, mode)


def test_the_files_can_be_read_without_exfam(saved):
    import pyarrow.parquet as pq
    from safetensors.torch import load_file

    document = json.loads((saved / "config.json").read_text())
    assert (document["format"], document["format_version"]) == ("exfam-model", FORMAT_VERSION)
    assert set(load_file(saved / "model.safetensors")) == set(model()["tensors"])
    assert pq.read_table(saved / "vocabulary.parquet").to_pylist()[2] == {
        "column": "year",
        "code": 0,
        "label": "1999",
        "label_type": "int",
    }


# What cannot be saved


@pytest.mark.parametrize(
    "label", [None, b"bytes", (1, 2), 1j, "\ud800", np.datetime64("2020")], ids=repr
)
def test_labels_of_other_types_are_refused(tmp_path, label):
    labels = np.empty(1, dtype=object)
    labels[0] = label
    with pytest.raises(ExfamError, match=r"Labels of 'item' must be str, int, float, bool or"):
        save_folder(tmp_path / "model", tensors={}, config={}, vocabulary={"item": labels})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("value", [float("nan"), np.zeros(2), {1, 2}, object], ids=repr)
def test_a_config_that_is_no_json_is_refused(tmp_path, value):
    with pytest.raises(ExfamError, match="`config` must be plain JSON, got"):
        save_folder(tmp_path / "model", tensors={}, config={"a": value}, vocabulary={})
    assert os.listdir(tmp_path) == []


# Replacing


def test_a_model_is_replaced_only_with_overwrite(saved):
    with pytest.raises(ExfamError, match=r"got a saved model at .*Pass overwrite=True"):
        save_folder(saved, **model(1))
    assert same(load_folder(saved), model())
    save_folder(saved, **model(1), overwrite=True)
    assert same(load_folder(saved), model(1))
    assert os.listdir(saved.parent) == ["model"]


def test_other_files_are_carried_over(saved):
    (saved / "report.html").write_text("mine")
    (saved / "plots").mkdir()
    (saved / "plots" / "a.png").write_text("mine too")
    (saved / "link").symlink_to("report.html")
    save_folder(saved, **model(1), overwrite=True)
    assert same(load_folder(saved), model(1))
    assert (saved / "report.html").read_text() == "mine"
    assert (saved / "plots" / "a.png").read_text() == "mine too"
    assert os.readlink(saved / "link") == "report.html"


def folder_with(name, content):
    def make(path):
        path.mkdir()
        (path / name).write_text(content)

    return make


FOREIGN = {
    "file": lambda path: path.write_text("a file"),
    "folder of files": folder_with("thesis.tex", "text"),
    "other config": folder_with("config.json", '{"model_type": "bert"}'),
    "list config": folder_with("config.json", "[]"),
    "broken config": folder_with("config.json", "{"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_no_model_is_never_replaced(tmp_path, name):
    path = tmp_path / "model"
    FOREIGN[name](path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ExfamError, match=r"`path` must be free or a saved model, got something"):
        save_folder(path, **model(), overwrite=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_folder_is_filled(tmp_path):
    save_folder(tmp_path, **model())
    assert same(load_folder(tmp_path), model())


def test_a_link_to_a_folder_stays_a_link(saved):
    link = saved.parent / "link"
    link.symlink_to(saved)
    save_folder(link, **model(1), overwrite=True)
    assert link.is_symlink()
    assert same(load_folder(saved), model(1))


class PowerCut(BaseException):
    pass


def cut(monkeypatch, function, at, *, silent=True):
    """Cut the power at call `at` of `os.<function>`: nothing later runs, no clean-up."""
    real, calls = getattr(os, function), []

    def counted(*args):
        calls.append(args)
        if len(calls) >= at:
            raise PowerCut("the lights went out")
        return real(*args)

    monkeypatch.setattr(os, function, counted)
    if silent:
        monkeypatch.setattr(folders, "_roll_back", lambda path: None)
        monkeypatch.setattr(folders.shutil, "rmtree", lambda path, **_: None)


# fsync: three files and their folder; rename: the old folder aside, the new one in.
CUTS = [("fsync", at) for at in range(1, 5)] + [("rename", 1), ("rename", 2)]


@pytest.mark.parametrize(("function", "at"), CUTS)
def test_a_save_cut_short_leaves_the_old_model(saved, monkeypatch, function, at):
    (saved / "report.html").write_text("mine")
    with monkeypatch.context() as patch, pytest.raises(PowerCut, match="lights"):
        cut(patch, function, at)
        save_folder(saved, **model(1), overwrite=True)
    assert same(load_folder(saved), model())
    save_folder(saved, **model(2), overwrite=True)
    assert same(load_folder(saved), model(2))
    assert (saved / "report.html").read_text() == "mine"
    assert os.listdir(saved.parent) == ["model"]


@pytest.mark.parametrize(("function", "at"), [("rename", 3), ("fsync", 5)])
def test_a_save_cut_short_after_the_rename_leaves_the_new_model(saved, monkeypatch, function, at):
    with monkeypatch.context() as patch, pytest.raises(PowerCut, match="lights"):
        cut(patch, function, at)
        save_folder(saved, **model(1), overwrite=True)
    assert same(load_folder(saved), model(1))
    save_folder(saved, **model(2), overwrite=True)
    assert same(load_folder(saved), model(2))
    assert os.listdir(saved.parent) == ["model"]


@pytest.mark.parametrize(("function", "at"), CUTS)
def test_a_save_that_fails_puts_everything_back(saved, monkeypatch, function, at):
    with monkeypatch.context() as patch, pytest.raises(PowerCut, match="lights"):
        if function == "rename" and at == 2:
            fail_once(patch)
        else:
            cut(patch, function, at, silent=False)
        save_folder(saved, **model(1), overwrite=True)
    assert os.listdir(saved.parent) == ["model"]
    assert same(load_folder(saved), model())


def fail_once(patch):
    """The second rename fails, the one that puts the old folder back does not."""
    real, calls = os.rename, []

    def rename(*args):
        calls.append(args)
        if len(calls) == 2:
            raise PowerCut("the lights went out")
        real(*args)

    patch.setattr(os, "rename", rename)


def test_after_a_cut_between_renames_the_old_model_still_needs_overwrite(saved, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(PowerCut, match="lights"):
        cut(patch, "rename", 2)
        save_folder(saved, **model(1), overwrite=True)
    assert not saved.exists()
    with pytest.raises(ExfamError, match="Pass overwrite=True"):
        save_folder(saved, **model(1))
    assert same(load_folder(saved), model())


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("_write_tensors", SafetensorError("No space left on device (os error 28)")),
        ("_write_tensors", OSError(errno.ENOSPC, "No space left on device")),
        ("sync", OSError(errno.EIO, "Input/output error")),
    ],
    ids=str,
)
def test_a_disk_that_refuses_is_one_clear_error(saved, monkeypatch, function, error):
    def refuse(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(storage, function, refuse)
        with pytest.raises(ExfamError, match="can be written, got .*model: .*(space|error).* Free"):
            save_folder(saved, **model(1), overwrite=True)
    assert same(load_folder(saved), model())
    assert os.listdir(saved.parent) == ["model"]


@pytest.mark.parametrize("name", ["", "a" * 300, "\ud800", "\0"])
def test_a_name_that_no_folder_can_have_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExfamError, match="`path` must be a path"):
        save_folder(name, **model())
    assert not list(tmp_path.iterdir())


# Several processes

SOURCE = {**os.environ, "PYTHONPATH": str(Path(exfam.__file__).parents[1])}
# Rounds of saving, or of reading, whole models that hold one number everywhere.
HAMMER = """
import sys
import numpy as np
from exfam.estimator.storage import load_arrays, save_folder

path, number = sys.argv[1], int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for turn in range(6):
    if number:
        n = 100 * number + turn
        labels = {"item": np.array([n])}
        save_folder(
            path, tensors={"n": np.full(9, n)}, config={"n": n}, vocabulary=labels, overwrite=True
        )
    stored = load_arrays(path)
    assert stored.config["n"] == stored.tensors["n"][0] == stored.vocabulary["item"][0]
"""


def start(script, *arguments):
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=SOURCE,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_of_many_saves_at_once_one_is_there_whole(tmp_path):
    path = tmp_path / "model"
    save_folder(
        path, tensors={"n": np.zeros(9)}, config={"n": 0}, vocabulary={"item": np.array([0])}
    )
    processes = [start(HAMMER, path, number) for number in (0, 1, 2, 3)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0] * len(processes)
    assert load_arrays(path).config["n"] % 100 == 5
    assert os.listdir(tmp_path) == ["model"]


SLOW = """
import sys, time
from exfam.estimator import storage

def slow(folder, **_):
    (folder / "half").write_text("written")
    print("ready", flush=True)
    time.sleep(60)

storage._write = slow
storage.save_folder(sys.argv[1], tensors={}, config={}, vocabulary={}, overwrite=True)
"""


def test_a_killed_save_leaves_the_old_model_and_is_swept_by_the_next(saved):
    process = start(SLOW, saved)
    (left,) = (path for path in saved.parent.iterdir() if path != saved)
    # While it runs, what it writes is nobody else's to remove.
    save_folder(saved, **model(1), overwrite=True)
    assert (left / "half").exists()
    process.kill()
    process.communicate()
    assert same(load_folder(saved), model(1))
    save_folder(saved, **model(2), overwrite=True)
    assert same(load_folder(saved), model(2))
    assert os.listdir(saved.parent) == ["model"]


def test_what_older_versions_left_half_written_is_swept(saved):
    (saved.parent / ".model.new").mkdir()
    (saved.parent / ".model.new-1.old").mkdir()  # of a model named model.new-1
    save_folder(saved, **model(1), overwrite=True)
    assert sorted(os.listdir(saved.parent)) == [".model.new-1.old", "model"]


def test_a_model_replaced_while_it_is_read_is_read_again(saved, monkeypatch):
    checksum, turns = storage._checksum, []

    def replaced(file):
        turns.append(file)
        digest = checksum(file)
        if len(turns) == 2:  # all is checked, and nothing loaded yet
            with monkeypatch.context() as patch:
                patch.setattr(storage, "_checksum", checksum)
                save_folder(saved, **model(1), overwrite=True)
        return digest

    monkeypatch.setattr(storage, "_checksum", replaced)
    assert same(load_folder(saved), model(1))
    assert len(turns) == 4


def test_a_model_moved_aside_while_it_is_read_is_found(saved, monkeypatch):
    read, turns = storage._read_document, []

    def moved(path):
        turns.append(path)
        if len(turns) == 1:
            os.rename(saved, saved.parent / ".model.old")
        return read(path)

    monkeypatch.setattr(storage, "_read_document", moved)
    assert same(load_folder(saved), model())
    assert [path.name for path in turns] == ["model", ".model.old"]


# Damage


def one_clear_error(path, name):
    with pytest.raises(ModelFileError, match=re.escape(name)) as caught:
        load_folder(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


@pytest.mark.parametrize("name", FILES)
def test_any_changed_byte_is_noticed(saved, name):
    data = (saved / name).read_bytes()
    for at in {*range(0, len(data), max(1, len(data) // 60)), 0, 7, 8, len(data) - 2}:
        changed = bytearray(data)
        changed[at] ^= 0xFF
        (saved / name).write_bytes(bytes(changed))
        message = one_clear_error(saved, name)
        assert re.search("damaged|something else|format version", message), (at, message)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("keep", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_file_is_noticed(saved, name, keep):
    data = (saved / name).read_bytes()
    (saved / name).write_bytes(data[: int(len(data) * keep)])
    assert "damaged" in one_clear_error(saved, name)


@pytest.mark.parametrize("name", FILES)
def test_a_longer_file_is_noticed(saved, name):
    with (saved / name).open("ab") as file:
        file.write(b"x")
    assert "damaged" in one_clear_error(saved, name)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_noticed(saved, name):
    (saved / name).unlink()
    assert "must be" in one_clear_error(saved, name)


@pytest.mark.parametrize("name", FILES[1:])
def test_a_file_of_another_model_is_noticed(saved, tmp_path, name):
    other = {**model(1), "vocabulary": {"item": np.array(["c"])}}
    save_folder(tmp_path / "other", **other)
    shutil.copy(tmp_path / "other" / name, saved / name)
    assert "damaged or changed" in one_clear_error(saved, name)


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "3", '"exfam-model"', '{"a": 1}', "\xff"])
def test_another_config_is_noticed(saved, text):
    (saved / "config.json").write_bytes(text.encode("latin-1"))
    one_clear_error(saved, "config.json")


def edit(path, **changes):
    document = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(document | changes))


def test_an_edited_config_is_noticed(saved):
    edit(saved, config={"name": "efa", "sizes": [1, 3]})
    assert "damaged or changed" in one_clear_error(saved, "config.json")


def test_spaces_in_the_config_do_not_matter(saved):
    edit(saved)
    assert same(load_folder(saved), model())


def test_a_newer_format_is_refused(saved):
    edit(saved, format_version=99, exfam_version="7.0.0")
    with pytest.raises(
        ModelFileError,
        match=r"config\.json must have format version 1 at most, got 99, written by exfam 7\.0\.0\."
        " Install that version of exfam or a newer one",
    ):
        load_folder(saved)


@pytest.mark.parametrize("version", [0, "1", None, True])
def test_a_format_version_that_never_was_is_damage(saved, version):
    edit(saved, format_version=version)
    assert "damaged" in one_clear_error(saved, "config.json")


def test_what_is_no_model_folder_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match=r"`path` must be a folder.*got nothing at .*model"):
        load_folder(tmp_path / "model")
    (tmp_path / "model").write_text("")
    with pytest.raises(ModelFileError, match=r"`path` must be a folder.*got a file at .*model"):
        load_folder(tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"must be a saved exfam model, got a folder without"):
        load_folder(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ModelFileError, match=r"got a config\.json of something else"):
        load_folder(tmp_path)


def test_checksums_are_those_of_the_files(saved):
    document = json.loads((saved / "config.json").read_text())
    for name, checksum in document["files"].items():
        assert hashlib.sha256((saved / name).read_bytes()).hexdigest() == checksum
