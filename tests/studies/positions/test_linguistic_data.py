"""The ten probing tasks of public files."""

import pytest

from exfam.checks import DataError
from exfam.language.tokens import located_lines
from exfam_studies.common.token_streams import CORPORA, read_texts
from exfam_studies.positions import positions_linguistic as linguistic
from exfam_studies.positions.positions_linguistic import TASKS, linguistic_tasks, wikitext_sentences
from studies.positions.probing_cases import assert_sound, everything

# Too few lines for WC, whose rule is tested without them.
N_LINES = 1500
FEW = tuple(name for name in TASKS if name != "WC")


@pytest.fixture(scope="module")
def tasks(data_folder):
    for name in ("lm", "parses", "sentences"):
        if not (data_folder / name).is_dir():
            pytest.skip(f"EXFAM_DATA must name a folder that holds {name}")
    return linguistic_tasks(only=FEW, per_class={"SentLen": 30, "BShift": 90}, n_lines=N_LINES)


def test_all_are_there(tasks):
    assert tuple(tasks) == FEW == tuple(task.name for task in tasks.values())
    assert sum(tasks["SentLen"].sizes.values()) == 6 * 30
    assert sum(tasks["BShift"].sizes.values()) == 2 * 90


@pytest.mark.parametrize("name", FEW)
def test_classes_are_alike_and_parts_share_no_sentence(tasks, name):
    task = tasks[name]
    assert_sound(task)
    assert min(task.sizes.values()) >= 8 and len(task.classes) >= 2
    is_short = all(5 <= len(entry.words) <= 50 for entry in everything(task))
    assert is_short or name in {"TreeDepth", "TopConst"}


def test_sentences_to_change_are_not_of_the_training_part(tasks):
    texts = read_texts(CORPORA["wikitext-2"], n_lines=N_LINES)
    lines = [words for _, words in located_lines(texts.given["train"])]
    assert len(lines) == N_LINES and sum(map(len, lines)) + N_LINES == len(texts.codes["train"])
    train = {" ".join(entry) for entry in wikitext_sentences(lines)}
    assert not train & {entry.group for entry in everything(tasks["BShift"])}


def test_missing_files_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    monkeypatch.setattr(linguistic, "english_parses", lambda part: [])
    monkeypatch.setattr("exfam.reading.public_sets.published.cache_folder", lambda: tmp_path)
    with pytest.raises(DataError, match="`wikitext-2` must have its train part in the folder"):
        linguistic_tasks(only=TASKS, per_class={})


@pytest.mark.parametrize(
    ("line", "matches"),
    [
        ("Cats sleep . Do dogs ? They do !", ["Cats sleep .", "Do dogs ?", "They do !"]),
        ("= = Cats sleep . = =", []),
        ("cats sleep . Dogs bark .", ["Dogs bark ."]),
        ("Cats <unk> . Dogs bark .", ["Dogs bark ."]),
        ("Some 1 @,@ 234 @.@ 5 cats .", ["Some 1,234.5 cats ."]),
        ("A cat @-@ like @-@ dog .", ["A cat-like-dog ."]),
        ("It ( a cat sleeps .", []),
        ('He said " Cats sleep . " They do .', ['He said " Cats sleep . "', "They do ."]),
        ('Cats " sleep . Dogs bark .', ["Dogs bark ."]),
        ("A b c d e f g . A .", ["A ."]),
    ],
)
def test_whole_sentences_are_cut_out(line, matches):
    result = wikitext_sentences([line.split()], least=2, most=7)
    assert [" ".join(words) for words in result] == matches
