"""The examples that the helps show, one after the other, as a new user would try them."""

import shlex
from itertools import islice

import pytest

from cli.cases import ratings, write_csv
from encoder_cases import save_tiny_bert
from exfam import cli
from exfam.checks import ExfamError
from exfam.cli.commands import commands, form_of, split_command
from exfam.cli.configs import read_config
from exfam.explorer.exported.written import questions_of
from house.sources import ROOT

FIRST = ("fit", "fit words", "prepare")
# Enough to see that a model is fitted; of so little text no word may be left out.
SHORT = {
    "fit": ["--max-epochs", "3"],
    "fit words": ["--epochs", "2", "--dim", "4", "--subsample", "0"],
}
EXAMPLES = [
    (name, line)
    for name in dict.fromkeys([*FIRST, *commands()])
    for line in form_of(name).example.replace("\\\n", " ").splitlines()
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    write_csv(folder / "ratings.csv", ratings())
    sentences = ["the cat eats fish", "the cats eat fish", "the dog eats meat"] * 9
    (folder / "corpus.txt").write_text("\n".join(sentences))
    sentence = (
        "1\tcat\tcat\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\teats\teat\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    )
    for part in ("dev", "test"):
        (folder / f"{part}.conllu").write_text(sentence * 3)
    (folder / "pairs.jsonl").write_text(
        '{"sentence1": "Cats eat a fish.", "sentence2": "Cats.", "gold_label": "entailment", '
        '"sentence1_parse": "(S (NP (NNS Cats)) (VP (VBP eat) (NP (DT a) (NN fish))) (. .))"}'
    )
    save_tiny_bert(folder / "encoder", ["cat", "eats", "fish"])
    (folder / "pairs").mkdir()
    (folder / "pairs" / "pets.csv").write_text("cat,dog,8\ncat,fish,5\ncat,unicorn,1\n")
    return folder


@pytest.mark.parametrize(("name", "line"), EXAMPLES, ids=lambda word: str(word)[:30])
def test_an_example_works(name, line, folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    # These run for minutes, or until they are interrupted, and have tests of their own.
    monkeypatch.setattr("exfam.explorer.serve.Explorer.wait", lambda page: page.stop())
    monkeypatch.setattr("webbrowser.open", lambda address: None)
    few = lambda view: islice(questions_of(view), 20)  # noqa: E731
    monkeypatch.setattr("exfam.explorer.exported.page.questions_of", few)
    monkeypatch.setattr("exfam.cli.demonstration.run", lambda **_: print("ran"))
    monkeypatch.setattr("exfam_studies.common.harness.reproduce", lambda *_, **__: print("ran"))
    program, *rest = shlex.split(line)
    command, words = split_command(rest)
    assert program == "exfam" and (command == name or command in FIRST)
    short = SHORT.get(command, [""])
    words += [] if short[0] in ["", *words] else short
    assert cli.main([command, *words]) == 0
    result = capfd.readouterr()
    assert "Traceback" not in result.err and (result.out or "-o" in words)


def test_every_help_shows_an_example(capfd):
    for name in commands():
        assert cli.main([*name.split(), "--help"]) == 0
        result = capfd.readouterr()
        assert result.err == "" and f"Example:\n  exfam {name}" in result.out


def test_the_configuration_of_the_guide_is_one(tmp_path):
    guide = (ROOT / "docs" / "guide" / "command-line.md").read_text(encoding="utf-8")
    config = guide.split("```yaml\n")[1].split("```")[0]
    file = tmp_path / "run.yaml"
    file.write_text(config, encoding="utf-8")
    assert read_config(form_of("fit"), str(file))["n_heads"] == 4
    file.write_text(config.replace("n_heads", "n_head"), encoding="utf-8")
    with pytest.raises(ExfamError, match="Did you mean n_heads") as error:
        read_config(form_of("fit"), str(file))
    message = str(error.value).replace(str(file), "run.yaml")
    assert f"exfam fit: {message}" in guide.replace("\n", " ")
