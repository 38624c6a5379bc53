"""Manifests that are crafted, with right checksums: groups as they are, or one clear error."""

import copy
import hashlib
import json
from contextlib import contextmanager

import numpy as np
import pytest

from exfam import DataError, open_prepared, prepare
from exfam.reading import prepared as folders
from exfam.reading.folders import PREPARED
from exfam.reading.prepared import prepared_columns, prepared_facts
from exfam.reading.text import open_text, prepare_text
from exfam.reading.text import prepared_text as texts
from exfam.reading.text.prepared_text import TEXT, TOKENS
from group_cases import FRAME, full_groups

COLUMNS = {"group": "user", "order": ["time"], "item": "movie", "value": "stars"}
ODD = [None, True, -1, 0, 3, 2**70, 0.5, "", "x", "../outside.npy", "O", "\0"]
ODD += [[], [2], {}, {"a": 1}]


def manifest_of(folder):
    return next(
        folder / name for name in (PREPARED.manifest, TEXT.manifest) if (folder / name).exists()
    )


def document_of(folder):
    return json.loads(manifest_of(folder).read_text())


def craft(folder, document):
    """Write a manifest with the checksum that it should have."""
    document = {key: value for key, value in document.items() if key != "checksum"}
    document["checksum"] = hashlib.sha256(json.dumps(document).encode()).hexdigest()
    manifest_of(folder).write_text(json.dumps(document))


def set_in(document, path, value):
    document = copy.deepcopy(document)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("crafted") / "prepared"
    prepare(FRAME, path, attributes=["genre"], **COLUMNS)
    return path


@pytest.fixture
def document(folder):
    whole = document_of(folder)
    yield whole
    craft(folder, whole)
    open_prepared(folder)


def number_of(document, field):
    return next(k for k, shard in enumerate(document["shards"]) if shard["field"] == field)


def with_shard(document, field, /, **changes):
    """The document with other facts of one column."""
    number = number_of(document, field)
    return set_in(document, ["shards", number], document["shards"][number] | changes)


@contextmanager
def rewritten(folder, document, field, content):
    """A column's file with other bytes and their checksum."""
    file = folder / document["shards"][number_of(document, field)]["file"]
    whole = file.read_bytes()
    file.write_bytes(content(whole))
    sha256 = hashlib.sha256(content(whole)).hexdigest()
    shards = [
        shard | ({"sha256": sha256} if shard["file"] == file.name else {})
        for shard in document["shards"]
    ]
    craft(folder, document | {"shards": shards})
    yield
    file.write_bytes(whole)


CRAFTED = {
    "outside": ("item", "file", "../outside.npy", "the file '../outside.npy'"),
    "absolute": ("item", "file", "/etc/passwd.npy", "the file '/etc/passwd.npy'"),
    "other drive": ("item", "file", "..\\outside.npy", "the file"),
    "of another kind": ("item", "file", "manifest.json", "the file 'manifest.json'"),
    "a long name": ("item", "file", "a" * 300 + ".npy", "the file 'aaa"),
    "half a character": ("item", "file", "\ud800.npy", "the file '.ud800"),
    "no text": ("item", "file", 3, "describe the columns of groups"),
    "unknown field": ("item", "field", "price", "the column 'price'"),
    "negative offset": ("item", "offset", -4, "the size -4"),
    "offset of 2**70": ("item", "offset", 2**70, "where its shape needs others"),
    "offset elsewhere": ("item", "offset", 0, "where its shape needs others"),
    "negative shape": ("item", "shape", [-1], "the size -1"),
    "no shape": ("item", "shape", [], r"item of shape \(\)"),
    "many axes": ("item", "shape", [5, 1], r"item of shape \(5, 1\)"),
    "a true shape": ("item", "shape", [True], "the size True"),
    "objects": ("item", "dtype", "|O", "item of type '|O'"),
    "another kind of number": ("item", "dtype", "<f4", "item of type '<f4'"),
    "no type": ("item", "dtype", "what", "describe the columns of groups"),
    "named item": ("item", "name", "a", "item named 'a'"),
    "nameless value": ("values", "name", None, "values named None"),
    "labels as numbers": ("vocabulary", "file", "item.npy", "vocabulary in the file 'item.npy'"),
    "more": ("item", "more", 1, "unexpected keyword argument 'more'"),
}


@pytest.mark.parametrize(("field", "key", "value", "match"), CRAFTED.values(), ids=CRAFTED)
def test_a_crafted_column_is_refused(folder, document, field, key, value, match):
    craft(folder, with_shard(document, field, **{key: value}))
    with pytest.raises(DataError, match=match) as caught:
        open_prepared(folder)
    assert "manifest.json must describe the columns of groups, got" in str(caught.value)


def test_columns_that_share_a_file_are_each_checked(folder, document):
    """Of a size that fits the last of them alone."""
    item, values = (document["shards"][number_of(document, name)] for name in ("item", "values"))
    longer = {name: item[name] + 4_000 for name in ("size", "offset")}
    craft(folder, with_shard(document, "item", file=values["file"], **longer))
    with pytest.raises(DataError, match="values-0.npy|the file"):
        open_prepared(folder)


def test_columns_fit_each_other(folder, document):
    craft(folder, document | {"shards": [*document["shards"], document["shards"][0]]})
    with pytest.raises(DataError, match="got a column twice"):
        open_prepared(folder)
    shards = [shard for shard in document["shards"] if shard["field"] != "stop"]
    craft(folder, document | {"shards": shards})
    with pytest.raises(DataError, match="got no column stop"):
        open_prepared(folder)
    item = document["shards"][number_of(document, "item")]
    less = {"offset": item["offset"] + 4, "shape": [item["shape"][0] - 1]}
    craft(folder, with_shard(document, "item", **less))
    with pytest.raises(DataError, match=r"got columns of 4 and 5 rows"):
        open_prepared(folder)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"read_with": {"group": [[1]]}}, "columns without a name: group"),
        ({"read_with": {"group": "g", "table": "t"}}, "unexpected keyword argument 'table'"),
        ({"facts": {"rows": "many"}}, "facts that are no counts"),
        ({"facts": {}}, "facts without the number of rows or groups"),
        ({"facts": {"rows": 1}}, "facts without the number of rows or groups"),
        ({"facts": {"rows": -5, "groups": 1}}, "facts that are no counts"),
        ({"facts": {"rows": True, "groups": 1}}, "facts that are no counts"),
        ({"facts": 3}, "has no attribute 'values'"),
        ({"shards": None}, "is not iterable"),
    ],
)
def test_what_is_said_of_the_reading_is_checked(folder, document, changes, match):
    craft(folder, document | changes)
    for reader in (open_prepared, prepared_columns, prepared_facts):
        with pytest.raises(DataError, match=f"must describe the columns of groups, .*{match}"):
            reader(folder)


def test_numbers_fit_each_other(folder, document, monkeypatch):
    start = document["shards"][number_of(document, "item")]["offset"]
    code = np.array([99], "<i4").tobytes()
    with rewritten(folder, document, "item", lambda x: x[:start] + code + x[start + 4 :]):
        with pytest.raises(DataError, match="hold columns that fit each other: `item` must be"):
            open_prepared(folder)
        monkeypatch.setattr(folders, "MUCH", 0)
        open_prepared(folder)
        with pytest.raises(DataError, match="must hold columns that fit each other"):
            open_prepared(folder, verify=True)


def test_damaged_labels(folder, document):
    with (
        rewritten(folder, document, "vocabulary", lambda x: b"PAR1" + x[4:-8] + b"\0" * 8),
        pytest.raises(DataError, match="vocabulary.parquet must hold labels as they were written"),
    ):
        open_prepared(folder)


def test_nesting_without_end(folder, document):
    (folder / PREPARED.manifest).write_text('{"format": ' + "[" * 200_000)
    with pytest.raises(DataError, match="must be as it was written, got a damaged or changed file"):
        open_prepared(folder)


def paths_in(inner, above=()):
    pairs = inner.items() if isinstance(inner, dict) else enumerate(inner)
    for key, value in pairs:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from paths_in(value, (*above, key))


def attack(opener, folder, whole, n_mutations, *, seed):
    """Open many mutated manifests; how many were refused."""
    rng, paths, n_refused = np.random.default_rng(seed), list(paths_in(whole)), 0
    for _ in range(n_mutations):
        path = paths[rng.integers(len(paths))]
        craft(folder, set_in(whole, path, ODD[rng.integers(len(ODD))]))
        try:
            opener(folder)
        except DataError:
            n_refused += 1
    return n_refused


def test_mutated_manifests(tmp_path):
    prepare(full_groups(lags=1), tmp_path / "p")
    assert attack(open_prepared, tmp_path / "p", document_of(tmp_path / "p"), 300, seed=0) > 200
    prepare_text(["a b a", "b a b"], folder=tmp_path / "t", min_count=1)
    assert attack(open_text, tmp_path / "t", document_of(tmp_path / "t"), 150, seed=1) > 60


def test_a_text_of_other_numbers_is_refused(tmp_path):
    folder = tmp_path / "t"
    prepare_text(["a b a", "b a b"], folder=folder, min_count=1)
    np.save(folder / TOKENS, np.zeros((2, 2)))
    whole = document_of(folder)
    size = (folder / TOKENS).stat().st_size
    craft(folder, set_in(whole, ["files", TOKENS, "size"], size))
    with pytest.raises(DataError, match="must hold a text as it was prepared, got tokens of type"):
        open_text(folder)


@pytest.mark.parametrize("code", [3, 2**31 - 1, -2, -(2**31)])
def test_codes_of_no_word_are_refused(tmp_path, monkeypatch, code):
    """A changed file of the same size: compiled loops would read memory that is not theirs."""
    monkeypatch.setattr(texts, "_BLOCK", 2)
    prepare_text(["a b a c"] * 3, folder=tmp_path, min_count=1)
    tokens = np.load(tmp_path / TOKENS, mmap_mode="r+")
    tokens[-2] = code
    tokens.flush()
    with pytest.raises(DataError, match=f"{TOKENS} must hold codes of 3 words, .* got {code}: a"):
        open_text(tmp_path)


@pytest.mark.parametrize(
    ("maker", "opener", "name"),
    [
        (lambda at: prepare(FRAME, at, **COLUMNS), open_prepared, "item.npy"),
        (lambda at: prepare_text(["a b a"], folder=at, min_count=1), open_text, TOKENS),
    ],
    ids=["groups", "text"],
)
def test_links_to_files_elsewhere_are_not_followed(tmp_path, maker, opener, name):
    maker(tmp_path / "prepared")
    file = tmp_path / "prepared" / name
    file.rename(tmp_path / "outside.npy")
    file.symlink_to(tmp_path / "outside.npy")
    (tmp_path / "link").symlink_to(tmp_path / "prepared")
    with pytest.raises(DataError, match=f"{name} must be in its folder, got a link to a file else"):
        opener(tmp_path / "prepared")
    file.unlink()
    (tmp_path / "outside.npy").rename(file)
    opener(tmp_path / "link")
