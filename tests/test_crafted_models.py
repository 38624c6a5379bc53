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


def rewritten(folder, document):
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


def mutated(document, draw):
    """The document with one field removed or replaced."""
    document = copy.deepcopy(document)
    *above, last = draw.choice(list(paths(document)))
    node = document
    for key in above:
        node = node[key]
    if draw.random() < 0.2:
        del node[last]
    else:
        node[last] = draw.choice(VALUES)
    return document


@pytest.fixture
def folder(tmp_path, request):
    return Path(shutil.copytree(STORED / request.param, tmp_path / "model"))


@pytest.mark.parametrize("folder", kinds_of("groups"), indirect=True)
def test_one_field_that_is_wrong_is_one_error_or_a_model(folder):
    document, draw, errors = json.loads((folder / "config.json").read_text()), random.Random(0), 0
    for _ in range(15):
        rewritten(folder, mutated(document, draw))
        try:
            exfam.load(folder)
        except ModelFileError as error:
            errors += 1
            assert "\n" not in str(error)
    assert errors > 3


def change(*keys, **to):
    """Replace what is at the keys by `to`, or remove it."""

    def apply(document):
        for key in keys[:-1]:
            document = document[key]
        if to:
            document[keys[-1]] = to["to"]
        else:
            del document[keys[-1]]

    return apply


FITTED, VALUE = ("config", "fitted"), ("config", "schema", "values", 0)
# One change of a configuration each, and what the error says of it.
CRAFTED = {
    "a huge table": (change(*FITTED, "embed_dim", to=10**9), "far larger model"),
    "many layers": (change(*FITTED, "n_layers", to=10**9), "far larger model"),
    "another size": (change(*FITTED, "embed_dim", to=3), "size mismatch"),
    "a size of words": (change(*FITTED, "n_layers", to="two"), "two"),
    "a flag of words": (change(*FITTED, "progress", to="x"), "progress"),
    "a later parameter": (change("config", "parameters", "n_experts", to=8), "n_experts"),
    "a wrong parameter": (change("config", "parameters", "seed", to=-1), "seed"),
    "no parameters": (change("config", "parameters", to=None), "AttributeError"),
    "many members": (change("config", "n_members", to=10**12), "size|n_members|KeyError"),
    "fewer members": (change("config", "n_members", to=0), "n_members is 0"),
    "less than none": (change("config", "n_members", to=-1.5), "n_members"),
    "no members": (change("config", "n_members"), "KeyError: 'n_members'"),
    "an unknown family": (change(*VALUE, "family", "name", to="zipf"), "'zipf'"),
    "a center of words": (change(*VALUE, "center", to="x"), "center"),
    "another schema": (change("config", "schema", to={"fields": []}), "KeyError"),
    "true positions": (change("config", "schema", "n_positions", to=True), "n_positions"),
    "a list of kinds": (change("config", "estimator", to=["efa"]), "TypeError"),
    "a list": (change("config", to=[1]), "this version"),
    "no configuration": (change("config"), "config"),
    "no files": (change("files"), "files"),
    "a list of files": (change("files", to=[]), "this version"),
    "no labels": (change("vocabulary", "item", to="<U500000000"), "labels of 'item' as"),
    "labels of no type": (change("vocabulary", "item", to="no type"), "no type"),
    "no items": (change("vocabulary", "item"), "item"),
    "no vocabulary": (change("vocabulary", to=3.5), "this version"),
    "no number": (change("config", "support", to=float("nan")), "damaged or changed"),
}


SCALE = ("schema", "values", 0, "family", "scale")
# By kind: one field, what is put there, and what the error says of it.
FIELDS = {
    kind: (change("config", *keys, to=to), message)
    for kind, keys, to, message in (
        ("skip-gram", ("n_tokens",), [[118]], "n_tokens.* must be|violates type hint"),
        ("sentence-regressor", ("learned", 0), "<f8", "could not convert"),
        ("sentence-classifier", ("encoder", "n_layers"), 2**63, "`n_layers` must be"),
        ("latent-factor", SCALE, 1e-30, "starting values for"),
        ("field-latent-factor", ("family", "scale"), 0.5, "must be gaussian, got Gaussian"),
        ("field-efa", ("shape", "lags"), 10**18, "network of 10{18} lags"),
        ("masked-table", ("families", 1, "start"), -1, "labels from 0 on"),
        ("masked-table-regressor", ("columns", 0, "knots", 1), None, "knots .* must be finite and"),
        ("masked-table-classifier", ("columns", 0, "kind"), "x", "`kind` must be"),
    )
}


def assert_refused(folder, apply, message):
    document = json.loads((folder / "config.json").read_text())
    document["config"].setdefault("fitted", copy.deepcopy(document["config"].get("parameters")))
    apply(document)
    rewritten(folder, document)
    with pytest.raises(ModelFileError, match=message):
        exfam.load(folder)


@pytest.mark.parametrize("kind", FIELDS)
def test_fields_of_other_kinds_are_checked_too(kind, tmp_path):
    case_of(kind).fit().save(tmp_path / "model")
    assert_refused(tmp_path / "model", *FIELDS[kind])


@pytest.mark.parametrize("what", CRAFTED)
@pytest.mark.parametrize("folder", ["efa"], indirect=True)
def test_crafted_folders_are_one_clear_error(folder, what, monkeypatch):
    monkeypatch.setattr(bounds, "_STEPS", 50)  # in a tenth of the time
    assert_refused(folder, *CRAFTED[what])


@pytest.mark.parametrize("folder", ["efa"], indirect=True)
def test_parameters_that_a_configuration_lacks_have_their_defaults(folder):
    document = json.loads((folder / "config.json").read_text())
    document["config"]["parameters"].pop("warmup")
    rewritten(folder, document)
    assert exfam.load(folder).parameters_["warmup"] == exfam.EFA().warmup
