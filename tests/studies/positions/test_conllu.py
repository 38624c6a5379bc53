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
@pytest.mark.parametrize("end", [[], [""], ["", "", "# a comment alone", ""]])
def test_words_have_heads_tags_features_and_relations(tmp_path, name, end):
    one, two = read_conllu(file_of(tmp_path, [*SENTENCE, "", *SENTENCE, *end], name))
    assert one.words == two.words == ("Do", "n't", "stop", "it")
    assert one.tags == ("AUX", "PART", "VERB", "PRON") and len(one) == 4
    assert one.heads.tolist() == [2, 2, -1, 2]
    assert one.relations == ("aux", "advmod", "root", "obj")
    assert one.features == ({"Mood": "Imp", "VerbForm": "Fin"}, {}, {}, {})


def test_line_ends_of_windows_and_a_mark_of_the_byte_order_are_no_text(tmp_path):
    path = tmp_path / "a.conllu"
    for lines in (SENTENCE, SENTENCE[2:]):
        path.write_bytes("\r\n".join([*lines, "", ""]).encode("utf-8-sig"))
        (parse,) = read_conllu(path)
        assert parse.words == ("Do", "n't", "stop", "it") and parse.relations[-1] == "obj"


@pytest.mark.parametrize(
    ("line", "wrong", "message"),
    [
        (2, "1\tDo\tdo", r"10 columns apart by tabs in each line, got 3 at line 5 of .*a\.conllu"),
        (
            2,
            "7" + SENTENCE[2][1:],
            r"1, 2, \.\.\., got 7 for 1 in the sentence at line 4 of .*a\.c",
        ),
        (
            2,
            SENTENCE[2].replace("Do", ""),
            "a word in the second .* empty one for word 1 in the se",
        ),
        (2, SENTENCE[2].replace("\t3\t", "\t5\t"), "got 5 for word 1 of 4 in the sentence at lin"),
        (2, SENTENCE[2].replace("\t3\t", "\t1\t"), "got 1 for word 1 of 4 in the sentence at lin"),
        (2, SENTENCE[2].replace("\t3\t", "\tx\t"), "must be CoNLL-U, got .*'head': 'x' is not"),
        (2, SENTENCE[2].replace("\t3\t", "\t0\t"), "one root in each sentence, got 2 in the sen"),
    ],
)
def test_wrong_lines_are_named(tmp_path, line, wrong, message):
    lines = ["# a", "# b", *SENTENCE]
    assert lines[line + 2] != wrong
    lines[line + 2] = wrong
    path = file_of(tmp_path, lines)
    with pytest.raises(DataError, match=message):
        read_conllu(path)


def test_heads_that_go_round_are_refused(tmp_path):
    lines = list(SENTENCE)
    lines[2], lines[3] = (
        SENTENCE[2].replace("\t3\t", "\t2\t"),
        SENTENCE[3].replace("\t3\t", "\t1\t"),
    )
    with pytest.raises(
        DataError, match="heads that lead to the root, got a circle in the sentence"
    ):
        read_conllu(file_of(tmp_path, lines))


def test_files_without_sentences_are_refused(tmp_path):
    with pytest.raises(DataError, match="at least one sentence, got none in"):
        read_conllu(file_of(tmp_path, ["# only a comment", ""]))
    with pytest.raises(
        DataError, match="words in each sentence, got none in the sentence at line 1 of"
    ):
        read_conllu(file_of(tmp_path, [SENTENCE[1], ""]))
    with pytest.raises(DataError, match="`path` must be a file, got no such file at"):
        read_conllu(tmp_path / "b.conllu")
    latin = tmp_path / "latin.conllu"
    latin.write_bytes("\n".join(SENTENCE).replace("it", "été").encode("latin-1"))
    with pytest.raises(DataError, match="encoded in UTF-8, got .* at line 1 of"):
        read_conllu(latin)


def test_the_published_parses_are_read(data_folder):
    folder = data_folder / "parses"
    if not folder.is_dir():
        pytest.skip("the folder has no parses")
    parses = read_conllu(folder / "en_ewt-ud-dev.conllu.gz")
    assert len(parses) == 2001 and sum(map(len, parses)) > 25_000
    assert parses[0].words[:3] == ("From", "the", "AP")
