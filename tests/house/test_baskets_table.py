"""The table of the guide to baskets is the one made from the file kept in docs/results."""

import json

import baskets_table


def test_without_a_file_there_is_a_sentence(tmp_path):
    assert baskets_table.render(tmp_path / "missing.json") == baskets_table.EMPTY


def test_a_line_holds_what_a_model_reached_and_took(tmp_path):
    rows = [
        {
            "model": "item-knn",
            "ndcg@10": 0.0961,
            "ndcg@10-error": 0.002,
            "recall@10": 0.15,
            "recall@10-error": 0.003,
            "n_configurations": 12,
            "cost": {"cpu_seconds": 11.4, "seconds": 20.0, "peak_gigabytes": 1.26},
        },
        {"model": "truth", "nats": -6.6, "nats-error": 0.02},
    ]
    told = {
        "groups": 1000,
        "elements": 10_000,
        "items": 500,
        "targets": 900,
        "left_out": 3,
        "rows": rows,
        "differences": {"ndcg@10 over item-knn": [0.03, 0.02, 0.04]},
    }
    (tmp_path / "baskets.json").write_text(json.dumps(told))
    first, _, head, _, *lines, _, gaps = baskets_table.render(
        tmp_path / "baskets.json"
    ).splitlines()
    assert "1,000 baskets of 10,000 items" in first and "3 more" in first
    assert head.count("|") == len(baskets_table.COLUMNS) + 1
    assert lines == [
        "| item-kNN |  | 0.096 ± 0.002 | 0.150 ± 0.003 | 12 | 11 | 1.3 |",
        "| truth | -6.600 ± 0.020 |  |  |  |  |  |",
    ]
    assert gaps.endswith("NDCG@10 +0.030 [+0.020, +0.040] over item-kNN.")
