"""Saved folders: the same model back, whole or the old one, one clear error for what changed."""

import errno
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

import exfam
from exfam import folders
from exfam.checks import ExfamError, ModelFileError
from exfam.estimator import storage
from exfam.estimator.storage import MODEL, load_arrays, load_folder, save_folder

FILES = ("config.json", "model.safetensors", "vocabulary.parquet")
EMPTY = {"tensors": {}, "config": {}, "vocabulary": {}}


def model(seed=0):
    shared = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))
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
def path(tmp_path):
    return tmp_path / "model"


@pytest.fixture
def saved(path):
    save_folder(path, **model())
    return path


def holds(path, seed=0):
    stored, expected = load_folder(path), model(seed)
    assert stored.config == expected["config"]
    assert stored.tensors.keys() == expected["tensors"].keys()
    for name, tensor in expected["tensors"].items():
        assert stored.tensors[name].dtype == tensor.dtype
        assert torch.equal(stored.tensors[name], tensor)
    for name, labels in expected["vocabulary"].items():
        np.testing.assert_array_equal(stored.vocabulary[name], labels, strict=True)
    return True


def test_a_model_comes_back_exactly_in_files_that_need_no_exfam(saved):
    assert holds(saved) and os.listdir(saved.parent) == ["model"]
    assert sorted(os.listdir(saved)) == sorted(FILES)
    document = json.loads((saved / "config.json").read_text())
    assert (document["format"], document["format_version"]) == ("exfam-model", MODEL.version)
    for name, checksum in document["files"].items():
        assert hashlib.sha256((saved / name).read_bytes()).hexdigest() == checksum
    assert set(load_file(saved / "model.safetensors")) == set(model()["tensors"])
    row = {"column": "year", "code": 0, "label": "1999", "label_type": "int"}
    assert pq.read_table(saved / "vocabulary.parquet").to_pylist()[2] == row


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["", "a b", "caf\u00e9", "\U0001f600", "1", "True", "nan", 'quo"te\n']),
        np.array([7], dtype=np.uint8),
        np.array([0.1, -0.0, 1e300, np.inf, np.nan]),
        np.array([0.1], dtype=np.float32),
        np.array(["2020-01-01", "1969-07-20", "NaT"], dtype="datetime64[D]"),
        np.array(["2020-01-01T00:00:00.000000001"], dtype="datetime64[ns]"),
        np.array(["1", 1, 1.0, True, "True", False, 2**70], dtype=object),
        np.array([], dtype="<U1"),
        np.array([], dtype=object),
    ],
    ids=str,
)
def test_labels_keep_value_and_type(path, labels):
    save_folder(path / "deep", **EMPTY | {"vocabulary": {"first": np.array(["x"]), "c": labels}})
    loaded = load_folder(path / "deep").vocabulary["c"]
    np.testing.assert_array_equal(loaded, labels, strict=True)
    assert [type(label) for label in loaded.tolist()] == [type(x) for x in labels.tolist()]


def test_all_files_follow_the_umask(path):
    before = os.umask(0o027)
    try:
        save_folder(path, **model())
    finally:
        os.umask(before)
    assert {(path / name).stat().st_mode & 0o777 for name in FILES} == {0o640}


def test_what_cannot_be_kept_is_refused(path):
    for label in (None, "\ud800"):
        labels = {"item": np.array([label], dtype=object)}
        with pytest.raises(ExfamError, match="Labels of 'item' must be str, int, float, bool or"):
            save_folder(path, **EMPTY | {"vocabulary": labels})
    for value in (float("nan"), {1}):
        with pytest.raises(ExfamError, match="`config` must be plain JSON, got"):
            save_folder(path, **EMPTY | {"config": {"a": value}})
    with pytest.raises(ExfamError, match="`path` must be a path"):
        save_folder("\0", **model())
    assert os.listdir(path.parent) == []


def test_a_model_is_replaced_only_with_overwrite_and_other_files_are_carried_over(saved):
    (saved / "plots").mkdir()
    (saved / "plots" / "a.png").write_text("mine")
    (saved / "link").symlink_to("plots/a.png")
    with pytest.raises(ExfamError, match=r"got a saved model at .*Pass overwrite=True"):
        save_folder(saved, **model(1))
    assert holds(saved)
    save_folder(saved, **model(1), overwrite=True)
    assert holds(saved, 1)
    assert (saved / "plots" / "a.png").read_text() == "mine"
    assert os.readlink(saved / "link") == "plots/a.png"


FOREIGN = [("thesis.tex", "text"), ("config.json", '{"model_type": "bert"}'), ("config.json", "{")]


@pytest.mark.parametrize(("name", "content"), [(None, "a file"), *FOREIGN])
def test_what_is_no_model_is_never_replaced(path, name, content):
    if name:
        path.mkdir()
    (path / name if name else path).write_text(content)
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(ExfamError, match=r"`path` must be free or a saved model, got something"):
        save_folder(path, **model(), overwrite=True)
    assert sorted(path.parent.rglob("*")) == before


def test_an_empty_folder_is_filled_and_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "model")
    save_folder(tmp_path / "model", **model())
    save_folder(tmp_path / "link", **model(1), overwrite=True)
    assert (tmp_path / "link").is_symlink() and holds(tmp_path / "model", 1)


class PowerCut(BaseException):
    pass


def overwrite_cut_short(path, monkeypatch, function, at, *, clean_up=False, once=False):
    """A save whose power is cut at call `at` of `os.<function>`: nothing later runs."""
    real, calls = getattr(os, function), []

    def counted(*args):
        calls.append(args)
        if len(calls) == at or (len(calls) > at and not once):
            raise PowerCut("the lights went out")
        return real(*args)

    with monkeypatch.context() as patch, pytest.raises(PowerCut, match="lights"):
        patch.setattr(os, function, counted)
        if not clean_up:
            patch.setattr(folders, "_roll_back", lambda path: None)
            patch.setattr(folders.shutil, "rmtree", lambda path, **_: None)
        save_folder(path, **model(1), overwrite=True)


# fsync: the description, all three files and their folder, the folder above; rename: the old folder
# aside, the new one in, the old one away.
OLD_STAYS = [("fsync", at) for at in range(1, 6)] + [("rename", 1), ("rename", 2)]
CUTS = [(*cut, 0) for cut in OLD_STAYS] + [("rename", 3, 1), ("fsync", 6, 1)]


@pytest.mark.parametrize(("function", "at", "left"), CUTS)
def test_a_save_cut_short_leaves_the_old_model_or_the_new_one(
    saved, monkeypatch, function, at, left
):
    (saved / "report.html").write_text("mine")
    overwrite_cut_short(saved, monkeypatch, function, at)
    assert holds(saved, left)
    with pytest.raises(ExfamError, match="Pass overwrite=True"):
        save_folder(saved, **model(1))
    save_folder(saved, **model(2), overwrite=True)
    assert holds(saved, 2) and (saved / "report.html").read_text() == "mine"
    assert os.listdir(saved.parent) == ["model"]


@pytest.mark.parametrize(("function", "at"), OLD_STAYS)
def test_a_save_that_fails_puts_everything_back(saved, monkeypatch, function, at):
    # The rename that puts the old folder back works.
    once = (function, at) == ("rename", 2)
    overwrite_cut_short(saved, monkeypatch, function, at, clean_up=True, once=once)
    assert holds(saved) and os.listdir(saved.parent) == ["model"]


@pytest.mark.parametrize(
    ("of", "function", "error"),
    [
        (storage, "_write_tensors", SafetensorError("No space left on device (os error 28)")),
        (folders, "sync", OSError(errno.EIO, "Input/output error")),
    ],
    ids=["full", "broken"],
)
def test_a_disk_that_refuses_is_one_clear_error(saved, monkeypatch, of, function, error):
    def refuse(*_):
        raise error

    monkeypatch.setattr(of, function, refuse)
    with pytest.raises(ExfamError, match="can be written, got .*model: .*(space|error).* Free"):
        save_folder(saved, **model(1), overwrite=True)
    assert holds(saved) and os.listdir(saved.parent) == ["model"]


# Rounds of saving, or of reading, whole models that hold one number everywhere.
HAMMER = """
import sys
import numpy as np
from exfam.estimator.storage import load_arrays, save_folder

path, number = sys.argv[1], int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for turn in range(6):
    n = 100 * number + turn
    if number:
        model = dict(tensors={"n": np.full(9, n)}, vocabulary={"item": np.array([n])})
        save_folder(path, config={"n": n}, **model, overwrite=True)
    stored = load_arrays(path)
    assert stored.config["n"] == stored.tensors["n"][0] == stored.vocabulary["item"][0]
"""


def test_of_many_saves_at_once_one_is_there_whole(path):
    zero = {"tensors": {"n": np.zeros(9)}, "vocabulary": {"item": np.array([0])}}
    save_folder(path, config={"n": 0}, **zero)
    environment = {**os.environ, "PYTHONPATH": str(Path(exfam.__file__).parents[1])}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", HAMMER, str(path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        for number in (0, 1, 2, 3)
    ]
    for process in processes:
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert load_arrays(path).config["n"] % 100 == 5
    assert os.listdir(path.parent) == ["model"]


def test_only_what_saves_of_this_model_left_is_swept(saved):
    (saved.parent / ".model.new").mkdir()  # as older versions left it
    (saved.parent / ".model.new-1.old").mkdir()  # of a model named model.new-1
    save_folder(saved, **model(2), overwrite=True)
    assert holds(saved, 2)
    assert sorted(os.listdir(saved.parent)) == [".model.new-1.old", "model"]


def test_a_model_replaced_while_it_is_read_is_read_again(saved, monkeypatch):
    checksum, turns = storage.contents_of, []

    def replaced(file):
        turns.append(file)
        digest = checksum(file)
        if len(turns) == 2:  # all is checked, and nothing loaded yet
            with monkeypatch.context() as patch:
                patch.setattr(storage, "contents_of", checksum)
                save_folder(saved, **model(1), overwrite=True)
        return digest

    monkeypatch.setattr(storage, "contents_of", replaced)
    assert holds(saved, 1) and len(turns) == 4


def refused(path, *, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        load_folder(path)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


@pytest.mark.parametrize("name", FILES)
def test_any_changed_byte_and_another_length_are_noticed(saved, name):
    data = (saved / name).read_bytes()
    for at in {*range(0, len(data), max(1, len(data) // 60)), 0, 7, 8, len(data) - 2}:
        changed = bytearray(data)
        changed[at] ^= 0xFF
        (saved / name).write_bytes(bytes(changed))
        refused(saved, match=f"{re.escape(name)}.*(damaged|something else|format version)")
    for content in (b"", data[: len(data) // 2], data[:-9], data + b"x"):
        (saved / name).write_bytes(content)
        refused(saved, match=f"{re.escape(name)}.*damaged")
    (saved / name).unlink()
    refused(saved, match=f"must be.*{re.escape(name)}|{re.escape(name)} must be")


def test_edits_and_newer_versions_are_noticed_but_spaces_do_not_matter(saved):
    document = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(document))
    assert holds(saved)
    (saved / "config.json").write_text(json.dumps(document | {"format_version": None}))
    refused(saved, match=r"config\.json.*damaged or changed")
    newer = {"format_version": 99, "exfam_version": "7.0.0"}
    (saved / "config.json").write_text(json.dumps(document | newer))
    match = r"format version 1 at most, got 99, written by exfam 7\.0\.0\. Install that version"
    refused(saved, match=match)


def test_what_is_no_model_folder_is_refused(tmp_path):
    refused(tmp_path / "model", match=r"`path` must be a saved model, got nothing at .*model")
    (tmp_path / "model").write_text("")
    refused(tmp_path / "model", match=r"`path` must be a saved model, got a file at .*model")
    refused(tmp_path, match="`path` must be a saved model, got a folder without")
    for text in ('{"model_type": "bert"}', "null", "[]"):
        (tmp_path / "config.json").write_text(text)
        refused(tmp_path, match=r"got the config\.json of something else")
