"""Tables in pages are those made from the files kept in docs/results."""

import baskets_table
import natural_shifts_table
import positions_table
import pytest
import results_table
import shifted_tables_table
import temperatures_table
import words_table
from page_blocks import PageBlock, markdown_table

SCRIPTS = (
    baskets_table,
    natural_shifts_table,
    positions_table,
    results_table,
    shifted_tables_table,
    temperatures_table,
    words_table,
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_a_page_has_the_tables_of_the_files(script):
    block, text = script.BLOCK, script.BLOCK.page.read_text(encoding="utf-8")
    assert text.count(block.begin) == text.count(block.end) == 1
    made = block.filled(text, script.render(script.RESULTS))
    assert text == made, f"run: python docs/{script.__name__}.py"


def test_only_what_stands_between_the_markers_is_replaced(tmp_path):
    block = PageBlock(tmp_path / "page.md", "figures")
    block.page.write_text(f"a\n{block.begin}\nold\nlines\n{block.end}\nb\n", encoding="utf-8")
    for _ in range(2):
        block.write("new")
        assert block.page.read_text(encoding="utf-8") == f"a\n{block.begin}\nnew\n{block.end}\nb\n"


def test_a_table_is_markdown():
    assert markdown_table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
