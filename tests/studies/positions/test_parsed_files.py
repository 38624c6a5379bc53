"""Files of parsed sentences, CoNLL-U, brackets and SNLI: what is read, and what is refused."""

import gzip
import json
import random
from collections import Counter

import pytest

from exfam.checks import DataError, ExfamError
from exfam_studies.positions.parses import read_conllu
from exfam_studies.positions.snli import LABELS, PARTS, read_snli, snli_pairs
from exfam_studies.positions.trees import constituents, depth, parse_brackets, plain_words


def file_of(tmp_path, lines, name):
    path = tmp_path / name
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


# CoNLL-U

SENTENCE = [
    "# text = Don't stop it",
    "1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_",
    "1\tDo\tdo\tAUX\tVB\tMood=Imp|VerbForm=Fin\t3\taux\t_\t_",
    "2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_",
    "3\tstop\tstop\tVERB\tVB\t_\t0\troot\t_\t_",
    "3.1\tunsaid\t_\tVERB\t_\t_\t_\t_\t0:root\t_",
    "4\tit\tit\tPRON\tPRP\t_\t3\tobj\t_\t_",
]


@pytest.mark.parametrize("name", ["a.conllu", "a.conllu.gz"])
@pytest.mark.parametrize("end", [[], ["", "", "# a comment alone", ""]])
def test_words_have_heads_tags_features_and_relations(tmp_path, name, end):
    one, two = read_conllu(file_of(tmp_path, [*SENTENCE, "", *SENTENCE, *end], name))
    assert one.words == two.words == ("Do", "n't", "stop", "it")
    assert one.tags == ("AUX", "PART", "VERB", "PRON") and len(one) == 4
    assert one.heads.tolist() == [2, 2, -1, 2]
    assert one.relations == ("aux", "advmod", "root", "obj")
    assert one.features == ({"Mood": "Imp", "VerbForm": "Fin"}, {}, {}, {})


def test_line_ends_of_windows_and_a_mark_of_the_byte_order_are_no_text(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_bytes("\r\n".join([*SENTENCE[2:], "", ""]).encode("utf-8-sig"))
    (parse,) = read_conllu(path)
    assert parse.words == ("Do", "n't", "stop", "it") and parse.relations[-1] == "obj"


FIRST = SENTENCE[2]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("1\tDo\tdo", r"10 columns apart by tabs in each line, got 3 at line 5 of .*a\.conllu"),
        ("7" + FIRST[1:], r"1, 2, \.\.\., got 7 for 1 in the sentence at line 4 of .*a\.c"),
        (FIRST.replace("Do", ""), "a word in the second .* empty one for word 1 in the se"),
        (FIRST.replace("\t3\t", "\t5\t"), "got 5 for word 1 of 4 in the sentence at lin"),
        (FIRST.replace("\t3\t", "\t1\t"), "got 1 for word 1 of 4 in the sentence at lin"),
        (FIRST.replace("\t3\t", "\tx\t"), "must be CoNLL-U, got .*'head': 'x' is not"),
        (FIRST.replace("\t3\t", "\t0\t"), "one root in each sentence, got 2 in the sen"),
        (FIRST.replace("\t3\t", "\t2\t"), "that lead to the root, got a circle in the sentence"),
    ],
)
def test_wrong_lines_of_conllu_are_named(tmp_path, wrong, message):
    lines = ["# a", "# b", *SENTENCE]
    # The second word's head is the first one, which makes a circle of the last case alone.
    lines[4:6] = [wrong, SENTENCE[3].replace("\t3\t", "\t1\t")]
    with pytest.raises(DataError, match=message):
        read_conllu(file_of(tmp_path, lines, "a.conllu"))


def test_files_of_conllu_without_sentences_are_refused(tmp_path):
    with pytest.raises(DataError, match="at least one sentence, got none in"):
        read_conllu(file_of(tmp_path, ["# only a comment", ""], "a"))
    with pytest.raises(DataError, match="words in each sentence, got none in the sentence at line"):
        read_conllu(file_of(tmp_path, [SENTENCE[1], ""], "a"))
    with pytest.raises(DataError, match="`path` must be a file, got no such file at"):
        read_conllu(tmp_path / "b.conllu")
    latin = tmp_path / "latin.conllu"
    latin.write_bytes("\n".join(SENTENCE).replace("it", "été").encode("latin-1"))
    with pytest.raises(DataError, match="encoded in UTF-8, got .* at line 1 of"):
        read_conllu(latin)


# Brackets

TEXT = (
    "(ROOT (S (NP (NP (CD Four) (NNS men)) (PRN (-LRB- -LRB-) (JJ young) (-RRB- -RRB-))) "
    "(VP (VBP sit) (PP (IN on) (NP (DT the) (NN floor)))) (. .)))"
)


def read(text):
    return parse_brackets(text, where="line 3 of a.txt")


def grown(rng, levels):
    """Brackets of random shape."""
    label = rng.choice(["S", "NP", "VP"])
    if levels == 0 or rng.random() < 0.2:
        return f"({label}-tag {rng.choice('abc')})"
    return f"({label} {' '.join(grown(rng, levels - 1) for _ in range(rng.randint(1, 3)))})"


def slow_constituents(tree, first=0):
    """The words of a tree and its constituents, by recursion."""
    if isinstance(tree[0], str):
        return 1, []
    n, below = 0, []
    for child in tree:
        more, inside = slow_constituents(child, first + n)
        n, below = n + more, below + inside
    return n, [(tree.label(), first, first + n - 1), *below]


@pytest.mark.parametrize("seed", range(3))
def test_a_tree_is_what_its_brackets_say(seed):
    text = grown(random.Random(seed), 5)
    tree = read(text)
    assert " ".join(str(tree).split()) == text
    n, spans = slow_constituents(tree)
    assert [(node.label(), first, last) for node, first, last in constituents(tree)] == spans
    assert len(plain_words(tree)) == n and (depth(tree) == 1) == (not spans)


def test_words_and_depth():
    tree = read(TEXT)
    words = ("Four", "men", "(", "young", ")", "sit", "on", "the", "floor", ".")
    assert plain_words(tree) == words and depth(tree) == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`text` must be one tree in brackets, got '' .*'end-of-string'.* at line 3 of a.txt."),
        ("(NN man) (NN man)", "expected 'end-of-string'"),
        ("(NP (NN man)", r"expected '\)' but got 'end-of-string'"),
        ("(NP " * 600 + "(NN man)" + ")" * 600, "nesting depth exceeds .*500"),
        ("((NN man))", "must have a label, and a word or constituents, in each bracket, got "),
        ("(NP)", r"a word or constituents, in each bracket, got '\(NP \)' at"),
        ("(NP (NN man) a)", r"got '\(NP \(NN man\) a\)' at line 3"),
    ],
)
def test_what_is_no_tree_is_refused(text, message):
    with pytest.raises(DataError, match=message):
        read(text)


# SNLI

PAIR = {
    "annotator_labels": ["neutral"],
    "sentence1": " A man sings. ",
    "sentence2": "A man.",
    "gold_label": "entailment",
    "sentence1_parse": "(S (NP (DT A) (NN man)) (VP (VBZ sings)) (. .))",
    "sentence2_parse": "",
}


def pairs_of(tmp_path, *records, name="a.jsonl"):
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    return read_snli(file_of(tmp_path, lines, name))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_pairs_have_labels_and_parses_where_there_are(tmp_path, name):
    unparsed = {key: PAIR[key] for key in ("sentence1", "sentence2")} | {"gold_label": "-"}
    one, two = pairs_of(tmp_path, PAIR, "", unparsed, "", name=name)
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
        ({"sentence1_parse": "(S"}, r"`text` must be one tree in brackets, .* at line 2 of .*a\.j"),
    ],
)
def test_lines_that_are_no_pairs_are_named(tmp_path, record, message):
    wrong = record if isinstance(record, str) else PAIR | record
    with pytest.raises(DataError, match=message):
        pairs_of(tmp_path, PAIR, wrong)


def test_files_without_pairs_and_unknown_parts_are_refused(tmp_path):
    with pytest.raises(DataError, match="`path` must hold at least one pair, got none in"):
        pairs_of(tmp_path, "", "")
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
