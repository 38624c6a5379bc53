"""`exfam probe swaps`: changed pairs of a file, counted, shown and written."""

import json

import pytest

PAIR = {
    "sentence1": "Cats eat a big fish.",
    "sentence2": "Cats.",
    "gold_label": "entailment",
    "sentence1_parse": "(S (NP (NNS Cats)) (VP (VBP eat) (NP (DT a) (JJ big) (NN fish))) (. .))",
}


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.jsonl"
    neutral = PAIR | {"sentence2": "Dogs eat.", "gold_label": "neutral"}
    path.write_text("".join(f"{json.dumps(each)}\n" for each in (PAIR, neutral)))
    return path


def test_pairs_are_counted_and_shown(pairs, run):
    status, out, err = run("probe", "swaps", pairs)
    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines()[:6]]
    assert rows == [
        ["swap", "n", "pairs", "premises"],
        ["shuffle-3", "2", "2", "1"],
        ["shuffle-4", "2", "2", "1"],
        ["shuffle-5", "2", "0", "0"],
        ["shuffle-all", "2", "2", "1"],
        ["swap-roles", "1", "1", "1"],
    ]
    assert "swap-roles: Cats eat a big fish.\n            A big fish eat cats." in out
    assert out.count("Cats eat a big fish.") == 4 + out.count("  Cats eat a big fish.")
    other = run("probe", "swaps", pairs, "--seed", 5, "--examples", 1)[1]
    assert other != out


def test_changed_pairs_are_written_whole(pairs, run, tmp_path):
    out = tmp_path / "swaps.jsonl"
    status, result, err = run("probe", "swaps", pairs, "--out", out)
    assert (status, err) == (0, "") and result == run("probe", "swaps", pairs)[1]
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(records) == 7 and {each["version"] for each in records} == {"swaps-1"}
    last = records[-1]
    assert last["swap"] == "swap-roles" and last["gold_label"] == "contradiction"
    assert last["sentence1"] == "A big fish eat cats." and last["sentence2"] == "Cats."
    assert last["before"] == {key: PAIR[key] for key in last["before"]}
    # They are pairs in the same format.
    status, again, _ = run("probe", "swaps", out)
    assert status == 0 and again.splitlines()[-1].split() == ["swap-roles", "0", "0", "0"]


def test_the_file_that_is_read_is_never_written_over(pairs, run, tmp_path):
    link = tmp_path / "link.jsonl"
    link.symlink_to(pairs)
    before = pairs.read_bytes()
    for out in (pairs, link, tmp_path / "." / pairs.name):
        status, result, err = run("probe", "swaps", pairs, "--out", out)
        assert (status, result) == (2, "") and "`--out` must be another file than FILE, got" in err
    assert pairs.read_bytes() == before
    # A file that is not there is named, not compared.
    err = run("probe", "swaps", tmp_path / "none.jsonl", "--out", pairs)[2]
    assert "`FILE` must be a file, got no such file" in err


def test_errors_name_options_files_and_lines(pairs, run, tmp_path):
    status, out, err = run("probe", "swaps", pairs, "--out", tmp_path)
    assert (status, out) == (2, "") and "`--out` must be a file, got a folder at" in err
    pairs.write_text(pairs.read_text() + "cats\n")
    status, out, err = run("probe", "swaps", pairs)
    assert status == 2 and f"at line 3 of {pairs}" in err and "`FILE` must have one JSON" in err
    pairs.write_text("[1]\n")
    assert "(a list) at line 1 of" in run("probe", "swaps", pairs)[2]
