"""`exfam probe`: encoders by their attention to positions, and to syntactic heads."""

import json

import pytest

from encoder_cases import save_tiny_bert

SENTENCE = (
    "1\tcat\tcat\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\teats\teat\tVERB\t_\t_\t0\troot\t_\t_\n"
    "3\tfish\tfish\tNOUN\t_\t_\t2\tobj\t_\t_\n\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("probes")
    save_tiny_bert(folder / "encoder", ["cat", "eats", "fish"])
    for part in ("dev", "test"):
        (folder / f"{part}.conllu").write_text(SENTENCE * 3)
    return folder


def test_an_encoder_is_scored_as_a_whole_and_by_layer_and_head(folder, run):
    result = {}
    for by, n_rows in (("model", 1), ("layer", 2), ("head", 4)):
        words = ["--words", 2, "--length", 6, "--by", by, "--format", "json"]
        status, out, err = run("probe", "positions", folder / "encoder", *words)
        assert (status, err) == (0, "")
        result[by] = json.loads(out)
        assert len(result[by]) == n_rows
    assert list(result["model"][0]) == [
        "locality", "symmetry", "symmetry (macro)", "symmetry (raw)",
    ]  # fmt: skip
    assert [(row["layer"], row["head"]) for row in result["head"]] == [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
    ]
    # Locality is linear.
    heads = [row["locality"] for row in result["head"]]
    assert sum(heads) / 4 == pytest.approx(result["model"][0]["locality"])
    assert [row["layer"] for row in result["layer"]] == [1, 2]
    cut = ["--words", 2, "--length", 6, "--special-tokens", "cut", "--format", "json"]
    status, out, _ = run("probe", "positions", folder / "encoder", *cut)
    assert status == 0 and json.loads(out) != result["model"]


def test_relations_have_a_head_and_an_offset_each(folder, run):
    files = ["--dev", folder / "dev.conllu", "--test", folder / "test.conllu"]
    status, out, err = run("probe", "dependencies", folder / "encoder", *files, "--format", "json")
    assert (status, err) == (0, "")
    rows = {row["relation"]: row for row in json.loads(out)}
    assert set(rows) == {"nsubj", "root", "obj"} and rows["obj"]["n"] == 3
    assert rows["obj"]["offset"] == "offset -1 to-head"
    assert rows["obj"]["accuracy of the offset"] == 1.0
    assert all(row["low"] <= row["accuracy"] <= row["high"] for row in rows.values())
    least = run("probe", "dependencies", folder / "encoder", *files, "--least", 4)
    assert least[0] == 0 and "nsubj" not in least[1]


def test_sentences_that_are_too_long_are_left_out_and_counted(folder, run):
    long = "".join(
        f"{n}\tcat\tcat\tNOUN\t_\t_\t{n - 1}\t{'dep' if n > 1 else 'root'}\t_\t_\n"
        for n in range(1, 31)
    )
    (folder / "long.conllu").write_text(SENTENCE + long + "\n")
    files = ["--dev", folder / "dev.conllu", "--test", folder / "long.conllu"]
    status, out, err = run("probe", "dependencies", folder / "encoder", *files, "--format", "json")
    assert status == 0 and "1 of 2 sentences of" in err and "more than the 20 tokens" in err
    assert {row["n"] for row in json.loads(out)} == {1}


def test_errors_name_options_and_files(folder, run, tmp_path):
    status, out, err = run("probe", "positions", folder)
    assert (status, out) == (2, "") and "must hold a transformers model" in err
    status, out, err = run("probe", "positions", folder / "encoder", "--words", 9)
    assert status == 2 and "`--words` must be at most the 3 words of one token" in err
    broken = tmp_path / "broken.conllu"
    broken.write_text(SENTENCE.replace("\t2\tobj", "\t7\tobj"))
    files = ["--dev", broken, "--test", folder / "test.conllu"]
    status, out, err = run("probe", "dependencies", folder / "encoder", *files)
    assert status == 2 and err.count("\n") == 1
    assert f"in the sentence at line 1 of {broken}" in err
    assert "`--dev` must have heads" in err
    empty = tmp_path / "empty.conllu"
    empty.touch()
    good = folder / "dev.conllu"
    for option, files in (
        ("dev", ["--dev", empty, "--test", good]),
        ("test", ["--dev", good, "--test", empty]),
    ):
        status, out, err = run("probe", "dependencies", folder / "encoder", *files)
        assert status == 2 and f"`--{option}` must not be empty, got an empty file at" in err
    files = ["--dev", good, "--test", good, "--seed", -1]
    status, out, err = run("probe", "dependencies", folder / "encoder", *files)
    assert (status, out) == (2, "") and "`--seed` must be an integer >= 0, got -1" in err
