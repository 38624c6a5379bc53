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
OLD, NEW = full_groups(seed=1), full_groups()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "prepared"


@pytest.fixture
def prepared(folder):
    prepare(OLD, folder)
    return folder


def is_mapped(array):
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


def assert_equal(groups, other):
    """Equal in every column, dtypes included, but for that of names."""
    assert_identical(groups.with_(group_names=None), other.with_(group_names=None))
    names = [None if g.group_names is None else g.group_names.tolist() for g in (groups, other)]
    assert names[0] == names[1]


def assert_holds(folder, groups):
    """The groups are in the folder, and nothing is left beside it."""
    assert_equal(open_prepared(folder, verify=True), groups)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


class TestWhatIsThere:
    def test_a_frame_comes_back_as_it_is_read_in_files_that_numpy_reads(self, folder):
        groups = prepare(FRAME, folder, **COLUMNS)
        assert_equal(groups, exfam.read(FRAME, **COLUMNS))
        assert_holds(folder, groups)
        for file in folder.glob("*.npy"):
            np.load(file, allow_pickle=False)
        np.testing.assert_array_equal(np.load(folder / "item.npy"), groups.item)
        names = {file.name for file in folder.iterdir()}
        assert {PREPARED.manifest, "vocabulary.parquet", "attributes-1.npy"} <= names
        assert not any(name.startswith("allocated") for name in names)

    @settings(max_examples=10)
    @given(
        lengths=st.lists(st.integers(0, 4), min_size=1, max_size=5),
        lags=st.integers(0, 2),
        data=st.data(),
    )
    def test_any_view_comes_back(self, tmp_path_factory, lengths, lags, data):
        groups = full_groups(lengths, lags=lags)
        chosen = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=5))
        folder = tmp_path_factory.mktemp("views") / "prepared"
        for view in (groups, groups[chosen]):
            again = prepare(view, folder, overwrite=True)
            assert_same(again, view)
            assert_holds(folder, again)
            assert again.n_rows == view.compact().n_rows

    def test_columns_and_facts_are_kept(self, folder):
        prepare(FRAME, folder, **COLUMNS)
        assert prepared_columns(folder) == replace(
            FrameColumns(**COLUMNS),
            order=("time",),
            attributes=("genre", "gap"),
            group_attributes=("age", "member"),
        )
        facts = prepared_facts(folder)
        assert isinstance(facts, ReadingFacts) and (facts.rows, facts.groups) == (5, 2)
        prepare(NEW, folder, overwrite=True)
        assert prepared_columns(folder) is None and prepared_facts(folder) is None


class TestLabels:
    @pytest.mark.parametrize(
        "labels",
        [
            np.array(["a", "", "ünï 日本", "x" * 100], dtype=object),
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
        ("labels", "kind", "match"),
        [
            (["a", 1], object, r"Labels of 'item' must be text, .* of one type, got 1 \(int\)"),
            (["a", "\ud800"], object, "got 'text out of Unicode'"),
            ([b"a", b"b"], "S1", r"got (np.bytes_\()?b'a'.*bytes"),
        ],
    )
    def test_labels_that_cannot_be_stored(self, folder, labels, kind, match):
        vocabulary = {"item": np.array(labels, dtype=kind)}
        with pytest.raises(DataError, match=match):
            prepare(Groups(start=[0], stop=[1], item=[0], vocabulary=vocabulary), folder)
        assert not list(folder.parent.iterdir())


class TestMapped:
    def test_columns_of_any_view_are_mapped_files_that_cannot_be_written(self, folder):
        groups = prepare(full_groups((3, 2, 4, 1, 5)), folder)
        views = [groups[1:], groups[[4, 0]], *groups.split((0.5, 0.5), seed=0), *groups.chunks(3)]
        for view in (groups, *views):
            columns = [getattr(view, name) for name in FLAT]
            columns += [*view.values.values(), *view.attributes.values()]
            assert all(is_mapped(column) for column in columns)
            # A subclass of arrays would make every batch slower.
            assert type(view.item) is np.ndarray
        assert all(is_mapped(column) for column in (groups.start, groups.stop))
        with pytest.raises(ValueError, match="read-only"):
            groups.item[0] = 0

    def test_opening_costs_nothing_an_element(self, folder):
        """Time and memory of opening 100 MB are those of opening a file."""
        n = 4_000_000
        ten = np.arange(0, n, 10)
        item, values = np.zeros(n, dtype=np.int32), {"y": np.zeros(n)}
        prepare(Groups(start=ten, stop=ten + 10, item=item, values=values), folder)
        tracemalloc.start()
        start = time.process_time()
        assert len(open_prepared(folder)) == n // 10
        assert time.process_time() - start < 0.2
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
        tracemalloc.stop()


def test_damage_in_a_large_file_is_found_where_it_is_verified(prepared, monkeypatch):
    monkeypatch.setattr("exfam.reading.shards._SMALL", 0)
    prepare(OLD, prepared, overwrite=True)
    content = bytearray((prepared / "item.npy").read_bytes())
    content[len(content) // 2] ^= 1
    (prepared / "item.npy").write_bytes(content)
    open_prepared(prepared)
    with pytest.raises(DataError, match="item.npy must be as it was written, got a damaged or"):
        open_prepared(prepared, verify=True)


class TestReplacing:
    def test_a_prepared_folder_is_replaced_only_on_demand(self, prepared):
        with pytest.raises(DataError, match="must be free, got a prepared .* Pass overwrite=True"):
            prepare(NEW, prepared)
        (prepared / "more").mkdir()
        (prepared / "more" / "a").write_text("mine")
        (prepared / "stale.npy").write_text("of an older version")
        old = open_prepared(prepared)
        prepare(NEW, prepared, overwrite=True)
        assert_holds(prepared, NEW)
        assert (prepared / "more" / "a").read_text() == "mine"
        assert not (prepared / "stale.npy").exists()
        assert_equal(old, OLD)  # mapped groups outlive their folder

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_nothing_else_is_replaced(self, tmp_path, overwrite):
        file = tmp_path / "thesis.tex"
        file.write_text("years of work")
        for path in (tmp_path, file):
            with pytest.raises(DataError, match="must be free or a prepared folder, got something"):
                prepare(NEW, path, overwrite=overwrite)
        assert file.read_text() == "years of work"
        with pytest.raises(DataError, match="must be where columns can be written, got .*thesis"):
            prepare(NEW, file / "prepared", overwrite=overwrite)

    def test_a_source_that_cannot_be_read_leaves_nothing(self, prepared):
        broken = FRAME | {"stars": ["five", "four", "three", "two", "one"]}
        with pytest.raises(DataError, match="stars"):
            prepare(broken, prepared, **COLUMNS, overwrite=True)
        for source, options, match in (
            (FRAME, {}, "`group` must name the column of groups, got None"),
            (NEW, {"group": "user"}, "`group` must not be given with Groups.* got 'user'"),
            (prepared, {}, "`source` must not be a prepared folder, got '.*Copy"),
        ):
            with pytest.raises(DataError, match=match):
                prepare(source, prepared.parent / "again", **options)
        assert_holds(prepared, OLD)

    @pytest.mark.parametrize(
        ("of", "name", "match"),
        [
            (os, "posix_fallocate", "room for its columns, got No space left .* bytes"),
            (Manifest, "write", "got .*prepared: No space left on device. Free some"),
        ],
    )
    def test_a_disk_that_is_full_is_named(self, folder, monkeypatch, full_disk, of, name, match):
        monkeypatch.setattr(of, name, full_disk)
        folder.mkdir()  # an empty one is free
        with pytest.raises(DataError, match=match):
            prepare(FRAME, folder, **COLUMNS)
        assert not [file for path in folder.parent.iterdir() for file in path.iterdir()]

    @pytest.mark.parametrize("name", ["", "a" * 300])
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
                prepare(NEW, folder)
        assert_holds(folder, NEW)

    def test_a_rename_that_fails_puts_the_old_folder_back(self, prepared, monkeypatch):
        rename = os.rename

        def failing(source, target):
            if ".new-" in str(source):
                raise OSError(errno.EIO, "Input/output error")
            rename(source, target)

        monkeypatch.setattr(os, "rename", failing)
        with pytest.raises(DataError, match="can be written, got .*prepared: Input/output.* Free"):
            prepare(Groups(start=[0], stop=[1]), prepared, overwrite=True)
        assert_holds(prepared, OLD)


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
        (left,) = folder.parent.iterdir()
        assert left.name.startswith(".prepared.new-")
        # While it runs, what it writes is nobody else's to remove.
        prepare(OLD, folder, overwrite=True)
        assert left.exists()
        run.send_signal(signal.SIGKILL)
        run.communicate()
        assert_equal(open_prepared(folder), OLD)
        prepare(NEW, folder, overwrite=True)
        assert_holds(folder, NEW)

    def test_between_two_renames_the_old_folder_is_found(self, prepared):
        (prepared / "notes.md").write_text("mine")
        os.rename(prepared, prepared.parent / ".prepared.old")
        assert is_prepared(prepared)
        assert_equal(open_prepared(prepared), OLD)
        with pytest.raises(DataError, match="must be free, got a prepared"):
            prepare(NEW, prepared)
        prepare(NEW, prepared, overwrite=True)
        assert_holds(prepared, NEW)
        assert (prepared / "notes.md").read_text() == "mine"

    def test_after_them_the_old_folder_is_gone_for_good(self, prepared):
        shutil.copytree(prepared, prepared.parent / ".prepared.old")
        prepare(NEW, prepared, overwrite=True)
        assert_holds(prepared, NEW)
