"""150 inputs that are wrong in some way: none ends in a traceback, or in numbers that are none."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.bad_cases import (
    FAMILIES,
    HEADER,
    ONE_EPOCH,
    ROWS,
    TINY,
    Asked,
    column_words,
    complaints,
    config_texts,
    damaged,
    files,
    hyperparameters,
)
from cli.cases import write_csv
from exfam import cli

PARTS = ("`value`", "`item`", "value", "item")
QUESTIONS = [
    "score",
    "score --per-row",
    "predict",
    "predict --interval=0.5",
    "predict --proba",
    "recommend -k 2",
    "explain",
]
COLUMNS = ["--group", "user", "--order", "time", "--item", "movie", "--value", "stars"]


def generated(n):
    """`n` examples, the same in every run."""
    return settings(
        max_examples=n,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A folder with a sound file, models and a prepared folder."""
    folder = tmp_path_factory.mktemp("sound")
    file = str(write_csv(folder / "data.csv", ROWS, HEADER))
    words = [*COLUMNS, *TINY, *ONE_EPOCH]
    assert cli.main(["fit", file, *words, "-o", str(folder / "model")]) == 0
    assert (
        cli.main(["fit", file, *COLUMNS, "--model=marginal", "-o", str(folder / "marginal")]) == 0
    )
    assert cli.main(["prepare", file, *COLUMNS, "-o", str(folder / "prepared")]) == 0
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("place")


def in_new_folder(place, ask):
    """What is wrong with the answer to what `ask` makes of a new folder, or with what it leaves."""
    folder = Path(tempfile.mkdtemp(dir=place))
    asked = ask(folder)
    result = complaints(asked)
    left = {each.name for each in folder.iterdir()} - {*asked.hints, "made"}
    shutil.rmtree(folder)
    return result or left


@generated(35)
@given(data=st.data())
def test_a_bad_file_is_told_in_a_fit(place, data):
    def ask(folder):
        file, columns = data.draw(files(folder)), data.draw(column_words())
        family = data.draw(st.sampled_from(FAMILIES[:7] * 9 + FAMILIES))
        model = data.draw(st.sampled_from(["efa", "efa", "marginal", "shrunk-offset"]))
        words = [str(file), *columns, f"--family={family}", f"--model={model}", "--format=csv"]
        words += [*TINY, *ONE_EPOCH] if model == "efa" else []
        return Asked(["fit", *words, "-o", str(folder / "made")], (file.name, "FILE", *PARTS))

    assert not in_new_folder(place, ask)


@generated(15)
@given(data=st.data())
def test_a_bad_file_is_told_in_preparing(place, data):
    def ask(folder):
        file, columns = data.draw(files(folder)), data.draw(column_words())
        words = [str(file), *columns, "-o", str(folder / "made")]
        return Asked(["prepare", *words], (file.name, "FILE", *PARTS))

    assert not in_new_folder(place, ask)


@generated(20)
@given(data=st.data())
def test_a_bad_file_is_told_by_a_model(sound, place, data):
    def ask(folder):
        file = data.draw(files(folder))
        command, *more = data.draw(st.sampled_from(QUESTIONS)).split()
        names = ["model"] if command == "explain" else ["model", "marginal"]
        model = sound / data.draw(st.sampled_from(names))
        more += data.draw(st.sampled_from([[], [], ["--unknown=ignore"], ["--unknown=unk"]]))
        words = [str(model), str(file), *more, "--format=csv"]
        return Asked([command, *words], (file.name, "FILE", *PARTS))

    assert not in_new_folder(place, ask)


@generated(30)
@given(data=st.data())
def test_absurd_hyperparameters_are_told(sound, place, data):
    model, (option, value) = data.draw(hyperparameters())
    given = [option, value]
    usual = [*COLUMNS, *(TINY if model == "efa" else [])]
    usual += ONE_EPOCH if model in ("efa", "latent-factor") else []
    pairs = {}
    for word, following in zip(usual, [*usual[1:], ""], strict=True):
        if word.startswith("--"):
            name, equals, inside = word.partition("=")
            pairs[name] = inside if equals else following
    pairs |= dict([given])
    words = [f"{name}={inside}" for name, inside in pairs.items()]
    output = place / "fitted"
    words = ["fit", str(sound / "data.csv"), f"--model={model}", *words, "--format=csv"]
    result = complaints(
        Asked([*words, "-o", str(output)], (option, value, "Memory", "nats must be finite"))
    )
    shutil.rmtree(output, ignore_errors=True)
    assert not result


@generated(20)
@given(data=st.data())
def test_a_bad_configuration_is_told(sound, place, data):
    config = place / "run.yaml"
    config.write_bytes(data.draw(config_texts()))
    output = place / "fitted"
    words = ["fit", str(sound / "data.csv"), "--config", str(config), "--format=csv"]
    more = data.draw(st.sampled_from([[], ["--max-epochs=1"], ["--group=user", "--item=movie"]]))
    result = complaints(Asked([*words, *TINY, *more, "-o", str(output)], ("run.yaml", "--")))
    shutil.rmtree(output, ignore_errors=True)
    assert not result


@generated(15)
@given(data=st.data())
def test_a_damaged_model_is_told(sound, place, data):
    name = data.draw(st.sampled_from(["model", "marginal"]))
    copy = data.draw(damaged(sound / name, place))
    command = data.draw(st.sampled_from(["info", "score", "recommend"]))
    more = [] if command == "info" else [str(sound / "data.csv")]
    assert not complaints(Asked([command, str(copy), *more, "--format=csv"], ("damaged",)))


@generated(15)
@given(data=st.data())
def test_a_damaged_prepared_folder_is_told(sound, place, data):
    copy = data.draw(damaged(sound / "prepared", place))
    commands = [
        ["info", str(copy), "--format=csv"],
        ["score", str(sound / "model"), str(copy), "--format=csv"],
        ["fit", str(copy), "--model=marginal", "-o", str(place / "fitted"), "--format=csv"],
    ]
    result = complaints(Asked(data.draw(st.sampled_from(commands)), ("damaged",)))
    shutil.rmtree(place / "fitted", ignore_errors=True)
    assert not result
