"""Model folders with right checksums that no exfam has written: one clear error, or a model."""

import copy
import json
import random
import shutil
from pathlib import Path

import pytest

import exfam
from crafted_cases import REMOVED, changed, craft, mutations
from every_estimator import case_of
from exfam import ModelFileError
from exfam.estimator import bounds
from exfam.estimator.registry import kinds_of

STORED = Path(__file__).parent / "stored" / "v1"
NEWER = STORED.parent / "v2"


@pytest.mark.parametrize("kind", kinds_of("groups"))
def test_one_field_that_is_wrong_is_one_error_or_a_model(kind, tmp_path):
    first = STORED if (STORED / kind).is_dir() else NEWER
    folder = Path(shutil.copytree(first / kind, tmp_path / "model"))
    file, errors = folder / "config.json", 0
    for document in mutations(json.loads(file.read_text()), 15, random.Random(0)):
        craft(file, document)
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
    ("config n_members", 10**12, "size|n_members|KeyError|Missing key"),
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
    file = folder / "config.json"
    document = json.loads(file.read_text())
    document["config"].setdefault("fitted", copy.deepcopy(document["config"].get("parameters")))
    path = [int(key) if key.isdigit() else key for key in keys.split()]
    craft(file, changed(document, path, value))
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
    file = folder / "config.json"
    document = json.loads(file.read_text())
    craft(file, changed(document, ["config", "parameters", "warmup"], REMOVED))
    assert exfam.load(folder).parameters_["warmup"] == exfam.EFA().warmup
