"""The tables of positions are those made from the files kept in docs/results."""

import positions_table

from exfam_studies.common.rows import Row, write_rows


def cells(folder, name, rows):
    write_rows(folder / f"{name}.json", name, rows)
    text = positions_table.render(folder).split(f"(`{name}`)")[1].strip().split("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]


def test_without_files_there_are_sentences(tmp_path):
    told = positions_table.render(tmp_path)
    for name in positions_table.TABLES:
        assert positions_table.EMPTY.format(name) in told


def test_a_line_is_an_encoding_before_and_after_training(tmp_path):
    shared = {"model": "tupe", "task": "small"}
    sentences = {"model": "tupe", "task": "small-trec", "metric": "accuracy"}
    rows = [
        Row(metric="nats", value=5.1, sd=0.02, **shared),
        Row(model="counts", task="small", metric="nats", value=6.8),
        Row(metric="position-locality", value=0.1, settings={"training": "before"}, **shared),
        Row(metric="position-locality", value=0.4, settings={"training": "after"}, **shared),
        Row(value=0.9, settings={"encoder": "tuned"}, sd=0.01, **sentences),
        Row(value=0.7, settings={"encoder": "frozen"}, **sentences),
        Row(model="words", task="small-trec", metric="accuracy", value=0.8),
    ]
    head, _, line, words, _, counts = cells(tmp_path, "positions-pretraining", rows)
    told = dict(zip(head, line, strict=True))
    assert told["nats"] == "5.100 ± 0.020" and told["locality"] == "0.100 → 0.400"
    assert told["TREC"] == "90.0 ± 1.0 / 70.0" and told["MR"] == "/"
    assert words[head.index("TREC")] == "80.0" and counts[:2] == ["counts", "6.800"]


def test_the_layer_of_most_validation_accuracy_is_told(tmp_path):
    shared = {"task": "Tense", "model": "tupe-both", "metric": "accuracy"}
    rows = [
        Row(task="Tense", model="examples", metric="count-test", value=96.0),
        Row(value=0.6, validation=0.9, settings={"layer": 1}, **shared),
        Row(value=0.8, validation=0.7, settings={"layer": 2}, **shared),
    ]
    assert cells(tmp_path, "positions-linguistic", rows)[2] == ["Tense", "96", "60.0"]


def test_swaps_are_counted_and_scored_before_and_after(tmp_path):
    shared = {"task": "roles", "model": "words", "metric": "accuracy"}
    rows = [
        Row(task="roles", model="pairs", metric="count-pairs", value=213.0),
        Row(value=0.6, settings={"words": "before"}, **shared),
        Row(value=0.25, settings={"words": "after"}, **shared),
    ]
    head, _, line = cells(tmp_path, "positions-swaps", rows)
    assert head == ["model", "roles (213 pairs)"] and line == ["words", "60.0 → 25.0"]


def test_the_three_choices_of_an_encoding_stand_beside_each_other(tmp_path):
    def told(model, encoding, value):
        shared = {"task": "cars", "model": model, "settings": {"encoding": encoding}}
        return [
            Row(metric="nats", value=value, **shared),
            Row(metric="nats-difference-to-default", value=value - 1.0, **shared),
        ]

    scored = {"encoding": "alibi", "of": "attention"}
    rows = [
        *told("chosen-by-attention", "alibi", 1.25),
        *told("chosen-by-validation", "learned", 1.0),
        *told("model", "learned", 1.0),
        *told("model", "alibi", 1.25),
        Row(task="cars", model="model", metric="position-locality", value=0.1, settings=scored),
    ]
    assert [line[1:] for line in cells(tmp_path, "positions-fitted", rows)[2:]] == [
        ["default", "learned", "1.000", "0.000", "", ""],
        ["least validation nats", "learned", "1.000", "0.000", "", ""],
        ["nearest attention", "alibi", "1.250", "+0.250", "0.100", ""],
    ]
