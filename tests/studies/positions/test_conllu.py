"""Dependencies read from CoNLL-U: what a file may hold, what is refused."""

import gzip

import pytest

from exfam.checks import DataError
from exfam_studies.positions.parses import read_conllu

SENTENCE = [
    "# text = Don't stop it",
    "1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_",
    "1\tDo\tdo\tAUX\tVB\tMood=Imp|VerbForm=Fin\t3\taux\t_\t_",
    "2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_",
    "3\tstop\tstop\tVERB\tVB\t_\t0\troot\t_\t_",
    "3.1\tunsaid\t_\tVERB\t_\t_\t_\t_\t0:root\t_",
    "4\tit\tit\tPRON\tPRP\t_\t3\tobj\t_\t_",
]


def file_of(tmp_path, lines, name="a.conllu"):
    path = tmp_path / name
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


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
def test_wrong_lines_are_named(tmp_path, wrong, message):
    lines = ["# a", "# b", *SENTENCE]
    # The second word's head is the first one, which makes a circle of the last case alone.
    lines[4:6] = [wrong, SENTENCE[3].replace("\t3\t", "\t1\t")]
    with pytest.raises(DataError, match=message):
        read_conllu(file_of(tmp_path, lines))


def test_files_without_sentences_are_refused(tmp_path):
    with pytest.raises(DataError, match="at least one sentence, got none in"):
        read_conllu(file_of(tmp_path, ["# only a comment", ""]))
    with pytest.raises(DataError, match="words in each sentence, got none in the sentence at line"):
        read_conllu(file_of(tmp_path, [SENTENCE[1], ""]))
    with pytest.raises(DataError, match="`path` must be a file, got no such file at"):
        read_conllu(tmp_path / "b.conllu")
    latin = tmp_path / "latin.conllu"
    latin.write_bytes("\n".join(SENTENCE).replace("it", "été").encode("latin-1"))
    with pytest.raises(DataError, match="encoded in UTF-8, got .* at line 1 of"):
        read_conllu(latin)
