"""The results page's tables of natural shifts are those made from the file kept in docs/results."""

import natural_shifts_table

from exfam_studies.common.rows import Row, write_rows


def cells(text, head):
    lines = text.splitlines()
    assert all(line.count("|") == len(head) + 1 for line in lines)
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def wine(model, metric, value, *, error=0.02, **settings):
    return Row(
        task="wine",
        model=model,
        metric=metric,
        value=value,
        settings={"dropped": 0.0, "error": error} | settings,
    )


def test_without_a_file_there_is_a_sentence(tmp_path):
    assert natural_shifts_table.render(tmp_path / "none.json") == natural_shifts_table.EMPTY


def test_the_best_of_a_figure_is_bold_and_errors_are_told(tmp_path):
    rows = [
        wine("masked-table", "accuracy", 0.51, rule="argmax"),
        wine("ridge", "accuracy", 0.52, rule="argmax"),
        wine("masked-table", "mse", 0.8, rule="mean"),
        wine("catboost-tuned", "mse", 0.9, rule="mean"),
        wine("masked-table", "minus-mse", -0.1, rule="mean", against="catboost-tuned"),
        wine("masked-table", "nats", 1.1),
        wine("ridge", "nats-mixed", 1.3),
        Row(task="wine", model="ridge", metric="nats", settings={"dropped": 0.0}),
    ]
    path = write_rows(tmp_path / "table-shifts.json", "table-shifts", rows)
    accuracy, mse, nats = cells(natural_shifts_table.render(path), natural_shifts_table.HEAD)
    assert accuracy == [
        "wine", "accuracy", "0.510 ± 0.020", "", "", "", "**0.520 ± 0.020**", *[""] * 6
    ]  # fmt: skip
    assert mse[2] == "**0.800 ± 0.020**" and mse[-1] == "-0.100 ± 0.020" and mse[-2] == ""
    assert nats[1:3] == ["nats", ""] and nats[6] == "**1.300 ± 0.020**"


def test_dropped_cells_have_a_line_a_model(tmp_path):
    def dropped(model, value, share, **by):
        return wine(model, "mse", value, rule="mean", **by, dropped=share, error=500.0)

    rows = [
        dropped("ridge", 20_000.0, 0.0),
        dropped("ridge", 30_000.0, 0.5, by="cell"),
        dropped("masked-table-missing", 25_000.0, 0.5, by="cell"),
        dropped("masked-table-deep", 1.0, 0.5, by="cell"),
        wine("ridge", "accuracy", 0.5, rule="argmax", by="cell", dropped=0.5),
    ]
    path = write_rows(tmp_path / "table-shifts.json", "table-shifts", rows)
    whole, lines = natural_shifts_table.render(path).split("\n\n")
    assert len(cells(whole, natural_shifts_table.HEAD)) == 1
    assert cells(lines, natural_shifts_table.HEAD_OF_DROPPED) == [
        ["wine, MSE", "cell", "masked-table-missing", "", "", "", "**25,000**", ""],
        ["wine, MSE", "cell", "ridge", "**20,000**", "", "", "30,000", ""],
    ]
