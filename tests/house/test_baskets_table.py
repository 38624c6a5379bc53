"""The table of the guide to baskets is the one made from the file kept in docs/results."""

import importlib.util
import json

import pytest

from house.sources import ROOT


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("baskets_table", ROOT / "docs/baskets_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_table_of_the_file(script):
    text = script.PAGE.read_text(encoding="utf-8")
    assert text.count(script.BEGIN) == text.count(script.END) == 1
    assert text == script.replace_block(text, script.render(script.RESULTS)), (
        "run: python docs/baskets_table.py"
    )


def test_without_a_file_there_is_a_sentence(script, tmp_path):
    assert script.render(tmp_path / "missing.json") == script.EMPTY


def test_a_line_holds_what_a_model_reached_and_took(script, tmp_path):
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
    first, _, head, _, *lines, _, gaps = script.render(tmp_path / "baskets.json").splitlines()
    assert "1,000 baskets of 10,000 items" in first and "3 more" in first
    assert head.count("|") == len(script.COLUMNS) + 1
    assert lines == [
        "| item-kNN |  | 0.096 ± 0.002 | 0.150 ± 0.003 | 12 | 11 | 1.3 |",
        "| truth | -6.600 ± 0.020 |  |  |  |  |  |",
    ]
    assert gaps.endswith("NDCG@10 +0.030 [+0.020, +0.040] over item-kNN.")
