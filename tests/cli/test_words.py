import re

import pytest

from exfam.checks import ExfamError
from exfam.cli import kinds
from exfam.cli.kinds import anything, column, columns, flag, number, number_list, text, whole
from exfam.cli.options import Form, Option
from exfam.cli.parser import parse

FORM = Form(
    "try",
    "Try it",
    [
        Option("file", text, "the data", metavar="FILE", positional=True, required=True),
        Option("output", text, "where to", metavar="OUT", short="-o", required=True),
        Option("k", whole, "how many", default=10, short="-k"),
        Option("rate", number, "how fast (default 0.5)", default=0.5),
        Option("batch_size", whole, "100 % of it"),
        Option("group", column, "the groups", section="Columns"),
        Option("value", columns, "the values", many=True, section="Columns"),
        Option("quantiles", number_list, "levels", many=True),
        Option("overwrite", flag, "whether to", default=False),
        Option("family", anything, "a family", default="gaussian"),
    ],
    example="exfam try data.csv -o out",
    notes="What else.\n\nAnd more.",
    config=True,
)
LEAST = ["data.csv", "-o", "out"]


def parsed(*words):
    return parse(FORM, [*LEAST, *words])


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--batch_size", "3"], "batch_size", 3),
        (["--batch_size=3"], "batch_size", 3),
        (["-k", "3"], "k", 3),
        (["-k=3"], "k", 3),
        (["--rate", "-1e3"], "rate", -1000.0),
        (["--value", "a", "--value", "b"], "value", ["a", "b"]),
        (["--value", "[a, b]"], "value", ["a", "b"]),
        (["--value", "a", "--value", "[b, c]"], "value", ["a", "b", "c"]),
        (["--value", "7"], "value", "7"),
        (["--group", "-odd name"], "group", "-odd name"),
        (["--group", "a=b"], "group", "a=b"),
        (["--group", "null"], "group", None),
        (["--quantiles", "0.1", "0.9"], "quantiles", [0.1, 0.9]),
        (["--overwrite"], "overwrite", True),
        (["--overwrite", "no"], "overwrite", False),
        (["--family", "{stars: poisson}"], "family", {"stars": "poisson"}),
    ],
)
def test_options_are_written_in_many_ways(words, name, value):
    for order in ([*LEAST, *words], [*words, *LEAST[1:], LEAST[0]]):
        if order[-3] in ("--overwrite", "--quantiles"):
            continue
        assert getattr(parse(FORM, order), name) == value


def test_a_switch_does_not_take_the_file():
    assert parse(FORM, ["--overwrite", "data.csv", "-o", "out"]).file == "data.csv"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data.csv"], "`--output OUT` must be given. Where to."),
        ([*LEAST, "more"], "`exfam try` must be given FILE, got 'more' besides."),
        ([*LEAST, "--grup", "a"], "`--grup` must be an option of `exfam try`. Did you mean --g"),
        ([*LEAST, "--k", "--rate", "3"], "`--k` must have a value, got none."),
        ([*LEAST, "--k", "three"], "`--k` must be a whole number, got 'three'."),
        ([*LEAST, "--k", "3", "--k", "4"], "`--k` must be given once, got 2 values."),
        ([*LEAST, "--k", "9" * 900], "9 …."),
    ],
)
def test_wrong_words_are_refused(words, message):
    with pytest.raises(ExfamError, match=re.escape(message)):
        parse(FORM, words)


def test_the_help_says_everything(capsys):
    assert parse(FORM, ["nonsense", "--nonsense", "--help"]) is None
    out = capsys.readouterr().out
    assert out.startswith("usage: exfam try FILE -o OUT [options]\n\nTry it.\n")
    assert "100 % of it" in out and "Columns:\n" in out
    assert out.endswith("What else.\n\nAnd more.\n\nExample:\n  exfam try data.csv -o out\n")


def test_a_printed_configuration_is_a_configuration(capsys, tmp_path):
    words = ["--value", "[a, b]", "--k", "3", "--family", "{a: {name: ordinal, n: 5}}"]
    for print_config in ("--print_config", "--print-config"):
        assert parse(FORM, [*LEAST, *words, print_config]) is None
    half = len(out := capsys.readouterr().out) // 2
    assert out[:half] == out[half:]
    file = tmp_path / "run.yaml"
    file.write_text(out[:half])
    assert vars(parse(FORM, ["--config", str(file)])) == vars(parsed(*words))
    assert parse(FORM, ["--config", str(file), "--k", "4"]).k == 4


def test_the_defaults_may_be_left_out_of_a_configuration(capsys):
    parse(FORM, [*LEAST, "--k", "3", "--print_config=skip_default"])
    assert capsys.readouterr().out == "file: data.csv\noutput: out\nk: 3\n"
    with pytest.raises(ExfamError, match="`--print_config` must be one of skip_default, skip_nu"):
        parse(FORM, [*LEAST, "--print_config=comments"])


CONFIGS = [
    ("k: 3\n  rate: [", "must be YAML, got mapping values are not allowed here at line 2"),
    ("k: 3\nrat: 2", "got 'rat' at line 2 of FILE. Did you mean rate?"),
    ("k: 3\nk: 4", "`--config` must hold 'k' once, got it again at line 2 of FILE."),
    ("rate: fast", "`--rate` must be a finite number, got 'fast' at line 1 of FILE."),
    ("k: null", "`--k` must be a whole number, got None at line 1 of FILE."),
    ("<<: {k: 3}", "got '<<' at line 1 of FILE."),
    ("- k", "must hold one option a line, `name: value`, got a list in FILE."),
    ("", "must hold one option a line, `name: value`, got nothing in FILE."),
    ("k: !!python/name:os.system", "could not determine a constructor"),
    ("k: 2024-13-45", "`--config` must be YAML, got month must be in 1..12 in FILE."),
    ("[" * 1500, "`--config` must be YAML, got maximum recursion depth"),
    (b"k: \xff", "`--config` must be text in UTF-8, got byte 0xff at line 1 of FILE."),
    (None, "`--config` must be a YAML file, got nothing at FILE."),
]


@pytest.mark.parametrize(("content", "message"), CONFIGS, ids=[str(c[0])[:20] for c in CONFIGS])
def test_a_wrong_configuration_is_refused_with_its_line(content, message, tmp_path):
    file = tmp_path / "run.yaml"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ExfamError, match=re.escape(message.replace("FILE", str(file)))):
        parsed("--config", str(file))


WORDS = Form(
    "try",
    "Try it",
    [
        Option("file", str, "the file", metavar="FILE", positional=True, required=True),
        Option("words", kinds.words, "words", positional=True, many=True, metavar="W"),
        Option("k", int, "how many", short="-k"),
    ],
    example="",
)


@pytest.mark.parametrize(
    "words", [["cat"], ["2014"], ["null", "true"], ["[sic]"], ['["a"'], ["a=b", "1e5"]]
)
def test_words_stay_as_they_are(words):
    chosen = parse(WORDS, ["f", *words, "-k", "3"])
    assert (chosen.file, chosen.words, chosen.k) == ("f", words, 3)


@pytest.mark.parametrize("given", ["[]", "[1]"])
def test_no_words_are_refused(given):
    with pytest.raises(ValueError, match="must be words"):
        kinds.words(given)
