"""Pairs of sentences with labels and parses: what is read, and what is refused."""

import gzip
import json
from collections import Counter

import pytest

from exfam.checks import DataError, ExfamError
from exfam_studies.positions.snli import LABELS, PARTS, read_snli, snli_pairs
from exfam_studies.positions.trees import plain_words

PAIR = {
    "annotator_labels": ["neutral"],
    "sentence1": " A man sings. ",
    "sentence2": "A man.",
    "gold_label": "entailment",
    "sentence1_parse": "(S (NP (DT A) (NN man)) (VP (VBZ sings)) (. .))",
    "sentence2_parse": "",
}


def file_of(tmp_path, *records, name="a.jsonl"):
    path = tmp_path / name
    lines = (each if isinstance(each, str) else json.dumps(each) for each in records)
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_pairs_have_labels_and_parses_where_there_are(tmp_path, name):
    unparsed = {key: PAIR[key] for key in ("sentence1", "sentence2")} | {"gold_label": "-"}
    one, two = read_snli(file_of(tmp_path, PAIR, "", unparsed, "", name=name))
    assert (one.premise, one.hypothesis, one.label) == ("A man sings.", "A man.", "entailment")
    assert plain_words(one.premise_parse) == ("A", "man", "sings", ".")
    assert one.hypothesis_parse is None
    assert (two.premise, two.label, two.premise_parse) == ("A man sings.", None, None)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("{", r"one JSON object in each line, got '\{' .* at line 2 of .*a\.jsonl"),
        ("[]", r"one JSON object in each line, got '\[\]' \(a list\) at line 2 of"),
        ({"gold_label": "maybe"}, "`gold_label` must be one of entailment, .* got 'maybe' at line"),
        ({"sentence1": " "}, "`sentence1` must be a text that is not empty, got ' ' at line 2 of"),
        ({"sentence2": "a \ud800 b"}, r"`sentence2` must be .* 'a \\ud800 b' at line 2 of"),
        (
            {"sentence1_parse": "(S"},
            r"`text` must be one tree in brackets, .* at line 2 of .*a\.jso",
        ),
    ],
)
def test_lines_that_are_no_pairs_are_named(tmp_path, record, message):
    wrong = record if isinstance(record, str) else PAIR | record
    with pytest.raises(DataError, match=message):
        read_snli(file_of(tmp_path, PAIR, wrong))


def test_files_without_pairs_and_unknown_parts_are_refused(tmp_path):
    with pytest.raises(DataError, match="`path` must hold at least one pair, got none in"):
        read_snli(file_of(tmp_path, "", ""))
    with pytest.raises(ExfamError, match="`part` must be one of 'test', 'parsed', got 'dev'"):
        snli_pairs("dev")


def test_the_published_extracts_are_read(data_folder):
    if not (data_folder / "sentences" / "snli_test.csv.gz").is_file():
        pytest.skip("the folder has no SNLI")
    test, parsed = (snli_pairs(part) for part in PARTS)
    assert Counter(pair.label for pair in test) == dict(
        zip(LABELS, (3368, 3219, 3237), strict=True)
    )
    assert all(pair.premise_parse is None for pair in test)
    assert len(parsed) == 1277 and sum(pair.label is None for pair in parsed) == 23
    assert all(pair.premise_parse and pair.hypothesis_parse for pair in parsed)
    # As documented: it is not a part of the test set.
    assert not {pair.premise for pair in test} & {pair.premise for pair in parsed}
