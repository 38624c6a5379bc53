"""Model folders with right checksums that no exfam has written: one clear error, or a model."""

import copy
import hashlib
import json
import random
import shutil
from pathlib import Path

import pytest

import exfam
from every_estimator import case_of
from exfam import ModelFileError
from exfam.estimator import bounds
from exfam.estimator.registry import kinds_of

STORED = Path(__file__).parent / "stored" / "v1"
VALUES = (None, -1, 10**12, 1e300, "x", [], {}, True, 0, [[1]], {"a": 1}, 10**30)


def document_of(folder):
    return json.loads((folder / "config.json").read_text())


def craft(folder, document):
    """The document as the folder's configuration, with the checksum that it should have."""
    document.pop("checksum", None)
    document["checksum"] = hashlib.sha256(json.dumps(document).encode()).hexdigest()
    (folder / "config.json").write_text(json.dumps(document))


def paths(node, above=()):
    pairs = node.items() if isinstance(node, dict) else enumerate(node[:4])
    for key, value in pairs:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*above, key))


REMOVED = object()


def changed(document, path, value):
    """The document with one field replaced, or removed."""
    document = copy.deepcopy(document)
    *above, last = path
    node = document
    for key in above:
        node = node[key]
    if value is REMOVED:
        del node[last]
    else:
        node[last] = value
    return document


@pytest.mark.parametrize("kind", kinds_of("groups"))
def test_one_field_that_is_wrong_is_one_error_or_a_model(kind, tmp_path):
    folder = Path(shutil.copytree(STORED / kind, tmp_path / "model"))
    whole, draw, errors = document_of(folder), random.Random(0), 0
    for _ in range(15):
        value = REMOVED if draw.random() < 0.2 else draw.choice(VALUES)
        craft(folder, changed(whole, draw.choice(list(paths(whole))), value))
        try:
            exfam.load(folder)
        except ModelFileError as error:
            errors += 1
            assert "\n" not in str(error)
    assert errors > 3


# Of one stored model: a field, what is put there, and what the error says of it.
CRAFTED = [
    ("config fitted embed_dim", 10**9, "far larger model"),
    ("config fitted n_layers", 10**9, "far larger model"),
    ("config fitted embed_dim", 3, "size mismatch"),
    ("config fitted progress", "x", "progress"),
    ("config parameters n_experts", 8, "n_experts"),
    ("config parameters seed", -1, "seed"),
    ("config parameters", None, "AttributeError"),
    ("config n_members", 10**12, "size|n_members|KeyError"),
    ("config n_members", 0, "n_members is 0"),
    ("config n_members", REMOVED, "KeyError: 'n_members'"),
    ("config schema values 0 family name", "zipf", "'zipf'"),
    ("config schema values 0 center", "x", "center"),
    ("config schema n_positions", True, "n_positions"),
    ("config estimator", ["efa"], "TypeError"),
    ("config", [1], "this version"),
    ("config", REMOVED, "config"),
    ("files", REMOVED, "files"),
    ("vocabulary item", "<U500000000", "labels of 'item' as"),
    ("vocabulary item", "no type", "no type"),
    ("vocabulary", 3.5, "this version"),
    ("config support", float("nan"), "damaged or changed"),
]
# Of a new fit of other kinds.
FIELDS = {
    "skip-gram": ("n_tokens", [[118]], "n_tokens.* must be|violates type hint"),
    "sentence-regressor": ("learned 0", "<f8", "could not convert"),
    "sentence-classifier": ("encoder n_layers", 2**63, "`n_layers` must be"),
    "latent-factor": ("schema values 0 family scale", 1e-30, "starting values for"),
    "field-latent-factor": ("family scale", 0.5, "must be gaussian, got Gaussian"),
    "field-efa": ("shape lags", 10**18, "network of 10{18} lags"),
    "masked-table": ("families 1 start", -1, "labels from 0 on"),
    "masked-table-regressor": ("columns 0 knots 1", None, "knots .* must be finite and"),
    "masked-table-classifier": ("columns 0 kind", "x", "`kind` must be"),
}


def assert_refused(folder, keys, value, message):
    document = document_of(folder)
    document["config"].setdefault("fitted", copy.deepcopy(document["config"].get("parameters")))
    path = [int(key) if key.isdigit() else key for key in keys.split()]
    craft(folder, changed(document, path, value))
    with pytest.raises(ModelFileError, match=message):
        exfam.load(folder)


@pytest.mark.parametrize("kind", FIELDS)
def test_fields_of_other_kinds_are_checked_too(kind, tmp_path):
    case_of(kind).fit().save(tmp_path / "model")
    keys, value, message = FIELDS[kind]
    assert_refused(tmp_path / "model", f"config {keys}", value, message)


@pytest.mark.parametrize(("keys", "value", "message"), CRAFTED)
def test_crafted_folders_are_one_clear_error(keys, value, message, tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "_STEPS", 50)  # in a tenth of the time
    shutil.copytree(STORED / "efa", tmp_path / "model")
    assert_refused(tmp_path / "model", keys, value, message)


def test_parameters_that_a_configuration_lacks_have_their_defaults(tmp_path):
    folder = Path(shutil.copytree(STORED / "efa", tmp_path / "model"))
    craft(folder, changed(document_of(folder), ["config", "parameters", "warmup"], REMOVED))
    assert exfam.load(folder).parameters_["warmup"] == exfam.EFA().warmup
