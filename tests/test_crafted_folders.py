"""Manifests that are crafted, with right checksums: groups as they are, or one clear error."""

import hashlib
import json
import random

import numpy as np
import pytest

from crafted_cases import changed, craft, mutations
from exfam import DataError, open_prepared, prepare
from exfam.reading import prepared as folders
from exfam.reading.folders import PREPARED
from exfam.reading.text import open_text, prepare_text
from exfam.reading.text import prepared_text as texts
from exfam.reading.text.prepared_text import TEXT, TOKENS
from group_cases import FRAME, full_groups

COLUMNS = {"group": "user", "order": ["time"], "item": "movie", "value": "stars"}


def manifest_of(folder):
    text = folder / TEXT.manifest
    return text if text.exists() else folder / PREPARED.manifest


def document_of(folder):
    return json.loads(manifest_of(folder).read_text())


@pytest.fixture
def folder(tmp_path):
    prepare(FRAME, tmp_path / "prepared", attributes=["genre"], **COLUMNS)
    return tmp_path / "prepared"


def shard_of(document, field):
    return next(shard for shard in document["shards"] if shard["field"] == field)


def rewrite(folder, field, content):
    """Give a column's file other bytes and their checksum."""
    document = document_of(folder)
    file = folder / shard_of(document, field)["file"]
    file.write_bytes(content(file.read_bytes()))
    for shard in document["shards"]:
        if shard["file"] == file.name:
            shard["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    craft(manifest_of(folder), document)


# Other facts of a column, or of the whole, and what the error says.
CRAFTED = [
    ("item", {"file": "../outside.npy"}, "the file '../outside.npy'"),
    ("item", {"file": "manifest.json"}, "the file 'manifest.json'"),
    ("item", {"file": "a" * 300 + ".npy"}, "the file 'aaa"),
    ("item", {"file": "\ud800.npy"}, "the file '.ud800"),
    ("item", {"file": 3}, ""),
    ("item", {"field": "price"}, "the column 'price'"),
    ("item", {"field": "source_row"}, "a column twice"),
    ("item", {"offset": -4}, "the size -4"),
    ("item", {"offset": 2**70}, "where its shape needs others"),
    ("item", {"shape": []}, r"item of shape \(\)"),
    ("item", {"shape": [5, 1]}, r"item of shape \(5, 1\)"),
    ("item", {"shape": [True]}, "the size True"),
    ("item", {"shape": [4], "offset": 132}, "columns of 4 and 5 rows"),
    ("item", {"dtype": "|O"}, "item of type '|O'"),
    ("item", {"name": "a"}, "item named 'a'"),
    ("vocabulary", {"file": "item.npy"}, "vocabulary in the file 'item.npy'"),
    ("item", {"more": 1}, "unexpected keyword argument 'more'"),
    (None, {"read_with": {"group": [[1]]}}, "columns without a name: group"),
    (None, {"facts": {"rows": 1}}, "facts without the number of rows or groups"),
    (None, {"facts": {"rows": -5, "groups": 1}}, "facts that are no counts"),
    (None, {"shards": None}, "is not iterable"),
    (None, {"shards": []}, "no column start"),
]


@pytest.mark.parametrize(("field", "changes", "match"), CRAFTED)
def test_a_crafted_manifest_is_refused(folder, field, changes, match):
    document = document_of(folder)
    (document if field is None else shard_of(document, field)).update(changes)
    craft(manifest_of(folder), document)
    with pytest.raises(DataError, match=f"must describe the columns of groups, got.*{match}"):
        open_prepared(folder)


def test_columns_that_share_a_file_are_each_checked(folder):
    """Of a size that fits the last of them alone."""
    document = document_of(folder)
    item = shard_of(document, "item")
    item["file"] = shard_of(document, "values")["file"]
    item.update({name: item[name] + 4_000 for name in ("size", "offset")})
    craft(manifest_of(folder), document)
    with pytest.raises(DataError, match="values-0.npy|the file"):
        open_prepared(folder)


def test_numbers_fit_each_other(folder, monkeypatch):
    start = shard_of(document_of(folder), "item")["offset"]
    code = np.array([99], "<i4").tobytes()
    rewrite(folder, "item", lambda x: x[:start] + code + x[start + 4 :])
    with pytest.raises(DataError, match="hold columns that fit each other: `item` must be"):
        open_prepared(folder)
    monkeypatch.setattr(folders, "MUCH", 0)
    open_prepared(folder)
    with pytest.raises(DataError, match="must hold columns that fit each other"):
        open_prepared(folder, verify=True)


def test_damaged_labels_and_nesting_without_end(folder):
    rewrite(folder, "vocabulary", lambda x: b"PAR1" + x[4:-8] + b"\0" * 8)
    with pytest.raises(DataError, match="vocabulary.parquet must hold labels as they were written"):
        open_prepared(folder)
    (folder / PREPARED.manifest).write_text('{"format": ' + "[" * 200_000)
    with pytest.raises(DataError, match="must be as it was written, got a damaged or changed file"):
        open_prepared(folder)


@pytest.mark.parametrize(
    ("write", "opener", "n", "least"),
    [
        (lambda at: prepare(full_groups(lags=1), at), open_prepared, 300, 200),
        (lambda at: prepare_text(["a b a", "b a b"], folder=at, min_count=1), open_text, 150, 60),
    ],
    ids=["groups", "text"],
)
def test_mutated_manifests_and_links(tmp_path, write, opener, n, least):
    folder, n_refused = tmp_path / "prepared", 0
    write(folder)
    whole = document_of(folder)
    for document in mutations(whole, n, random.Random(0)):
        craft(manifest_of(folder), document)
        try:
            opener(folder)
        except DataError:
            n_refused += 1
    assert n_refused > least
    craft(manifest_of(folder), whole)
    (tmp_path / "link").symlink_to(folder)
    opener(tmp_path / "link")
    file = next(folder.glob("*.npy"))
    file.rename(tmp_path / "outside.npy")
    file.symlink_to(tmp_path / "outside.npy")
    with pytest.raises(DataError, match=f"{file.name} must be in its folder, got a link to a file"):
        opener(folder)


def test_a_text_of_other_numbers_is_refused(tmp_path):
    prepare_text(["a b a", "b a b"], folder=tmp_path, min_count=1)
    np.save(tmp_path / TOKENS, np.zeros((2, 2)))
    size = (tmp_path / TOKENS).stat().st_size
    craft(tmp_path / TEXT.manifest, changed(document_of(tmp_path), ["files", TOKENS, "size"], size))
    with pytest.raises(DataError, match="must hold a text as it was prepared, got tokens of type"):
        open_text(tmp_path)


@pytest.mark.parametrize("code", [3, -2])
def test_codes_of_no_word_are_refused(tmp_path, monkeypatch, code):
    """A changed file of the same size: compiled loops would read memory that is not theirs."""
    monkeypatch.setattr(texts, "_BLOCK", 2)
    prepare_text(["a b a c"] * 3, folder=tmp_path, min_count=1)
    tokens = np.load(tmp_path / TOKENS, mmap_mode="r+")
    tokens[-2] = code
    tokens.flush()
    with pytest.raises(DataError, match=f"{TOKENS} must hold codes of 3 words, .* got {code}: a"):
        open_text(tmp_path)
