"""Prepared folders: the same groups, mapped; whole or not there; damage is named."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import exfam
from exfam import DataError, Groups, open_prepared, prepare
from exfam.columns.parts import FrameColumns
from exfam.reading.database import ReadingFacts
from exfam.reading.folders import PREPARED, is_prepared, new_folder
from exfam.reading.prepared import Manifest, prepared_columns, prepared_facts
from group_cases import FRAME, OPTIONS, assert_same, full_groups
from reading.cases import assert_identical

COLUMNS = OPTIONS | {"order": ["time"]}
FLAT = ("item", "position", "observed", "role", "source_row")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "prepared"


def is_mapped(array):
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


def assert_equal(one, other):
    """Equal in every column, dtypes included, but for that of names."""
    assert_identical(one.with_(group_names=None), other.with_(group_names=None))
    names = [None if g.group_names is None else g.group_names.tolist() for g in (one, other)]
    assert names[0] == names[1]


def assert_alone(folder):
    """Nothing is left beside the folder."""
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


class TestWhatIsThere:
    def test_a_frame_comes_back_as_it_is_read(self, folder):
        groups = prepare(FRAME, folder, **COLUMNS)
        assert_equal(groups, exfam.read(FRAME, **COLUMNS))
        assert_equal(open_prepared(folder, verify=True), groups)

    @pytest.mark.parametrize("lags", [0, 2])
    def test_groups_come_back(self, folder, lags):
        groups = full_groups(lags=lags)
        again = prepare(groups, folder)
        assert_same(again, groups)
        assert_same(again, open_prepared(folder, verify=True))
        if not lags:
            assert_equal(again, groups)

    @settings(max_examples=10)
    @given(
        lengths=st.lists(st.integers(0, 4), min_size=1, max_size=5),
        lags=st.integers(0, 1),
        data=st.data(),
    )
    def test_any_view_comes_back(self, tmp_path_factory, lengths, lags, data):
        groups = full_groups(lengths, lags=lags)
        chosen = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=5))
        view = groups[chosen]
        again = prepare(view, tmp_path_factory.mktemp("views") / "one")
        assert_same(again, view)
        assert again.n_rows == view.compact().n_rows

    def test_one_array_a_file_that_numpy_reads(self, folder):
        groups = prepare(FRAME, folder, **COLUMNS)
        item = np.load(folder / "item.npy", allow_pickle=False)
        np.testing.assert_array_equal(item, groups.item)
        for file in folder.glob("*.npy"):
            np.load(file, allow_pickle=False)
        names = {file.name for file in folder.iterdir()}
        assert {PREPARED.manifest, "vocabulary.parquet", "attributes-1.npy"} <= names
        assert not any(name.startswith("allocated") for name in names)

    def test_columns_and_facts_are_kept(self, folder):
        prepare(FRAME, folder, **COLUMNS)
        kept = prepared_columns(folder)
        assert kept == replace(
            FrameColumns(**COLUMNS),
            order=("time",),
            attributes=("genre", "gap"),
            group_attributes=("age", "member"),
        )
        facts = prepared_facts(folder)
        assert isinstance(facts, ReadingFacts) and (facts.rows, facts.groups) == (5, 2)
        prepare(full_groups(), folder, overwrite=True)
        assert prepared_columns(folder) is None and prepared_facts(folder) is None

    def test_a_vocabulary_given_is_the_one_kept(self, folder):
        labels = {"item": np.array(["up", "heat", "alien"], dtype=object)}
        groups = prepare(FRAME, folder, **COLUMNS, vocabulary=labels, unknown="ignore")
        assert groups.vocabulary["item"].tolist() == ["up", "heat", "alien"]
        assert groups.ignored.tolist() == [1, 0] and groups.n_elements == 4


class TestLabels:
    @pytest.mark.parametrize(
        "labels",
        [
            np.array(["a", "", "ünï 日本", "x" * 100], dtype=object),
            np.array(["b", "a"]),
            np.array([3, -1, 2**62]),
            np.array([True, False]),
            np.array([0.1, np.inf, -1e-300]),
            np.array(["2024-02-29", "NaT"], dtype="datetime64[D]"),
        ],
    )
    def test_labels_and_names_of_any_kind(self, folder, labels):
        groups = Groups(start=[0], stop=[1], item=[0], vocabulary={"item": labels, "more": ["z"]})
        assert_equal(prepare(groups, folder), groups)
        named = Groups(start=[0] * len(labels), stop=[1] * len(labels), group_names=labels)
        again = prepare(named, folder, overwrite=True).group_names
        np.testing.assert_array_equal(again, labels)
        assert again.dtype == labels.dtype or labels.dtype == object

    @pytest.mark.parametrize(
        ("names", "is_text_array"),
        [(["ann", "b", ""], True), (["ann", "x" * 200, "b"], False), (["a", "zero\0", "b"], False)],
    )
    def test_names_of_groups(self, folder, names, is_text_array):
        names = np.array(names, dtype=object)
        groups = Groups(start=[0, 1, 2], stop=[1, 2, 3], item=[0, 1, 2], group_names=names)
        again = prepare(groups, folder)
        assert again.group_names.tolist() == names.tolist()
        assert is_mapped(again.group_names) == is_text_array
        assert (folder / "group_names.parquet").exists() != is_text_array

    @pytest.mark.parametrize(
        ("labels", "match"),
        [
            (["a", 1, "b"], r"Labels of 'item' must be text, .* all of one type, got 1 \(int\)"),
            (["a", "\ud800", "b"], "got 'text out of Unicode'"),
            ([b"a", b"b", b"c"], r"got (np.bytes_\()?b'a'.*bytes"),
        ],
    )
    def test_labels_that_cannot_be_stored(self, folder, labels, match):
        kind = "S1" if isinstance(labels[0], bytes) else object
        labels = np.array(labels, dtype=kind)
        groups = Groups(start=[0], stop=[1], item=[0], vocabulary={"item": labels})
        with pytest.raises(DataError, match=match):
            prepare(groups, folder)
        assert not list(folder.parent.iterdir())


class TestMapped:
    def test_columns_of_any_view_are_mapped_files(self, folder):
        groups = prepare(full_groups((3, 2, 4, 1, 5)), folder)
        views = [groups, groups[1:], groups[[4, 0]], *groups.split((0.5, 0.5), seed=0)]
        views += list(groups.chunks(3))
        for view in views:
            for name in FLAT:
                assert is_mapped(getattr(view, name)), name
            assert all(is_mapped(column) for column in view.values.values())
            assert all(is_mapped(column) for column in view.attributes.values())
            # A subclass of arrays would make every batch slower.
            assert type(view.item) is np.ndarray
        assert all(is_mapped(column) for column in (groups.start, groups.stop))

    def test_they_cannot_be_written(self, folder):
        groups = prepare(full_groups(), folder)
        with pytest.raises(ValueError, match="read-only"):
            groups.item[0] = 0

    def test_what_was_read_is_not_written_twice(self, folder, monkeypatch):
        written = []
        whole = exfam.reading.shards.ShardWriter._write

        def counted(self, field, *arguments, **more):
            written.append(field)
            return whole(self, field, *arguments, **more)

        monkeypatch.setattr(exfam.reading.shards.ShardWriter, "_write", counted)
        prepare(FRAME, folder, **COLUMNS)
        assert not {"item", "values", "source_row"} & set(written) and "start" in written


def test_damage_in_a_large_file_is_found_where_it_is_verified(folder, monkeypatch):
    monkeypatch.setattr("exfam.reading.shards._SMALL", 0)
    prepare(full_groups(), folder)
    content = bytearray((folder / "item.npy").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "item.npy").write_bytes(content)
    open_prepared(folder)
    with pytest.raises(DataError, match="item.npy must be as it was written, got a damaged or"):
        open_prepared(folder, verify=True)


class TestReplacing:
    def test_a_prepared_folder_is_replaced_only_if_asked(self, folder):
        prepare(full_groups(seed=1), folder)
        with pytest.raises(DataError, match="must be free, got a prepared .* Pass overwrite=True"):
            prepare(full_groups(), folder)
        assert_equal(open_prepared(folder), full_groups(seed=1))
        (folder / "notes.md").write_text("mine")
        (folder / "more").mkdir()
        (folder / "more" / "a").write_text("mine too")
        (folder / "stale.npy").write_text("of an older version")
        prepare(full_groups(), folder, overwrite=True)
        assert_equal(open_prepared(folder, verify=True), full_groups())
        assert (folder / "notes.md").read_text() == "mine"
        assert (folder / "more" / "a").read_text() == "mine too"
        assert not (folder / "stale.npy").exists()
        assert_alone(folder)

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_nothing_else_is_replaced(self, tmp_path, overwrite):
        file = tmp_path / "thesis.tex"
        file.write_text("years of work")
        for path in (tmp_path, file):
            with pytest.raises(DataError, match="must be free or a prepared folder, got something"):
                prepare(full_groups(), path, overwrite=overwrite)
        assert file.read_text() == "years of work"
        with pytest.raises(DataError, match="must be where a folder can be made, got .*thesis"):
            prepare(full_groups(), file / "prepared", overwrite=overwrite)

    def test_mapped_groups_outlive_their_folder(self, folder):
        folder.mkdir()  # an empty one is free
        groups = prepare(full_groups(seed=1), folder)
        prepare(full_groups(), folder, overwrite=True)
        assert_equal(groups, full_groups(seed=1))

    def test_a_source_that_cannot_be_read_leaves_nothing(self, folder):
        prepare(full_groups(), folder)
        broken = FRAME | {"stars": ["five", "four", "three", "two", "one"]}
        with pytest.raises(DataError, match="stars"):
            prepare(broken, folder, **COLUMNS, overwrite=True)
        assert_equal(open_prepared(folder), full_groups())
        assert_alone(folder)

    @pytest.mark.parametrize(
        ("of", "name", "match"),
        [
            (os, "posix_fallocate", "room for its columns, got No space left .* bytes"),
            (Manifest, "write", "got .*prepared: No space left on device. Free some"),
        ],
    )
    def test_a_disk_that_is_full_is_named(self, folder, monkeypatch, of, name, match):
        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(of, name, full)
        with pytest.raises(DataError, match=match):
            prepare(FRAME, folder, **COLUMNS)
        assert not list(folder.parent.iterdir())

    @pytest.mark.parametrize("name", ["", "a" * 300, "\ud800", "a\0b"])
    def test_a_name_that_no_folder_can_have_is_refused(self, tmp_path, monkeypatch, name):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(DataError, match="`folder` must be a path"):
            prepare(FRAME, name, **COLUMNS)
        with pytest.raises(DataError, match="`folder` must be a path"):
            open_prepared(name)
        assert not list(tmp_path.iterdir())

    def test_a_folder_that_came_meanwhile_stays(self, folder):
        with pytest.raises(DataError, match="got a prepared folder at"):  # noqa: SIM117
            with new_folder(folder, overwrite=False):
                prepare(full_groups(), folder)
        assert_equal(open_prepared(folder), full_groups())
        assert_alone(folder)

    def test_a_rename_that_fails_puts_the_old_folder_back(self, folder, monkeypatch):
        prepare(full_groups(seed=1), folder)
        rename = os.rename

        def failing(source, target):
            if ".new-" in str(source):
                raise OSError(errno.EIO, "Input/output error")
            rename(source, target)

        monkeypatch.setattr(os, "rename", failing)
        with pytest.raises(DataError, match="can be written, got .*prepared: Input/output.* Free"):
            prepare(Groups(start=[0], stop=[1]), folder, overwrite=True)
        assert_equal(open_prepared(folder), full_groups(seed=1))
        assert_alone(folder)


class TestSource:
    def test_columns_are_named_unless_there_are_groups(self, folder):
        with pytest.raises(DataError, match="`group` must name the column of groups, got None"):
            prepare(FRAME, folder)
        with pytest.raises(DataError, match="`group` must not be given with Groups.* got 'user'"):
            prepare(full_groups(), folder, group="user")

    def test_a_prepared_folder_is_no_source(self, folder):
        prepare(full_groups(), folder)
        with pytest.raises(DataError, match="`source` must not be a prepared folder, got '.*Copy"):
            prepare(folder, folder.parent / "again")


SLOW_READER = """
import sys, time
import numpy as np
from exfam import Groups, prepare
from exfam.reading import shards

def slow(column):
    print("writing", flush=True)
    time.sleep(60)
    yield column

shards._cut = slow
prepare(Groups(start=[0], stop=[2], item=[0, 1]), sys.argv[1], overwrite=True)
"""


class TestKilled:
    def test_a_killed_run_changes_nothing_and_is_cleared_away(self, folder):
        command = [sys.executable, "-c", SLOW_READER, str(folder)]
        run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert run.stdout.readline() == "writing\n"
        assert not folder.exists()
        left = [path for path in folder.parent.iterdir() if path != folder]
        assert len(left) == 1 and left[0].name.startswith(".prepared.new-")
        # While it runs, what it writes is nobody else's to remove.
        prepare(full_groups(), folder.parent / "prepared", overwrite=True)
        assert left[0].exists()
        run.send_signal(signal.SIGKILL)
        run.communicate()
        assert_equal(open_prepared(folder), full_groups())
        prepare(full_groups(seed=2), folder, overwrite=True)
        assert_equal(open_prepared(folder), full_groups(seed=2))
        assert_alone(folder)

    def test_between_two_renames_the_old_folder_is_found(self, folder):
        prepare(full_groups(seed=1), folder)
        (folder / "notes.md").write_text("mine")
        os.rename(folder, folder.parent / ".prepared.old")
        assert is_prepared(folder)
        assert_equal(open_prepared(folder), full_groups(seed=1))
        with pytest.raises(DataError, match="must be free, got a prepared"):
            prepare(full_groups(), folder)
        prepare(full_groups(), folder, overwrite=True)
        assert_equal(open_prepared(folder), full_groups())
        assert (folder / "notes.md").read_text() == "mine"
        assert_alone(folder)

    def test_after_them_the_old_folder_is_gone_for_good(self, folder):
        prepare(full_groups(seed=1), folder)
        shutil.copytree(folder, folder.parent / ".prepared.old")
        prepare(full_groups(), folder, overwrite=True)
        assert_alone(folder)


def test_opening_costs_nothing_an_element(folder):
    """Time and memory of opening 100 MB are those of opening a file."""
    n = 4_000_000
    ten = np.arange(0, n, 10)
    groups = Groups(
        start=ten, stop=ten + 10, item=np.zeros(n, dtype=np.int32), values={"y": np.zeros(n)}
    )
    prepare(groups, folder)
    tracemalloc.start()
    start = time.process_time()
    again = open_prepared(folder)
    assert time.process_time() - start < 0.2
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
    assert len(again) == n // 10
