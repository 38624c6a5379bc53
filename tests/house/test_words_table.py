"""The results page's tables of word vectors are those made from the files kept in docs/results."""

import words_table

from exfam_studies.common.rows import Row, write_rows


def test_without_files_there_are_sentences(tmp_path):
    both = [words_table.EMPTY.format(name) for name in ("words-table2", "words-figure4")]
    assert words_table.render(tmp_path) == "\n\n".join(both)


def cells(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]


def test_papers_figures_are_below_ours(tmp_path):
    shared = {"task": "negatives-25", "model": "sgns", "cpu_seconds": 250.4}
    rows = [
        Row(metric="spearman-wordsim-kept", value=0.7, sd=0.01, paper=0.681, **shared),
        Row(metric="spearman-men-kept", value=0.6, **shared),
        Row(metric="spearman-men-skipped", value=0.9, **shared),
    ]
    write_rows(tmp_path / "words-table2.json", "words-table2", rows)
    head, _, *lines = cells(words_table.render_models(tmp_path))
    assert head[:3] == ["context vectors", "WordSim", "MEN"]
    assert lines == [
        ["free", "0.700 ± 0.010", "0.600", "", "", "", "", "", "250"],
        ["free: paper, text8", "0.681", "", "", "", "", "", "", ""],
    ]


def test_a_line_is_a_share(tmp_path):
    rows = [
        Row(
            task="positive-share", model="sgns-wt", settings={"percent": percent},
            metric="accuracy-google-kept", value=percent / 1000,
        )
        for percent in (0, 50)
    ]  # fmt: skip
    write_rows(tmp_path / "words-figure4.json", "words-figure4", rows)
    assert cells(words_table.render_shares(tmp_path))[2:] == [["0 %", "0.000"], ["50 %", "0.050"]]
