"""The program as a whole: errors, help, and the forms of its output."""

import io
import json
import os
import subprocess
import sys
import warnings
from importlib.metadata import EntryPoint

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
from rich.text import Text

from exfam import __version__, cli
from exfam.checks import ExfamError
from exfam.cli.commands import COMMANDS, ENTRY_POINTS, commands
from exfam.cli.options import Form
from exfam.cli.output import (
    SHOWN_ROWS,
    Destination,
    arrow_column,
    beside,
    deliver,
    destination,
    stacked,
)
from exfam.cli.sources import describe_rows
from exfam.reading.database import ReadingFacts


@pytest.fixture
def run_instead(monkeypatch):
    """What `exfam demo` does, replaced by something else."""

    def replace(action):
        form = Form("demo", "Show", [], example="", run=lambda _: action())
        monkeypatch.setattr(sys.modules["exfam.cli.commands"], "form_of", lambda *_: form)

    return replace


def failing(error):
    def fail():
        raise error

    return fail


@pytest.mark.parametrize(
    ("action", "status", "message"),
    [
        (failing(ExfamError("two\n  lines")), 2, "exfam demo: two lines\n"),
        (failing(FileNotFoundError(2, "No such file", "a.csv")), 2, "demo: No such file: a.csv\n"),
        (failing(OSError("no number")), 2, "exfam demo: no number\n"),
        (failing(KeyboardInterrupt()), 130, "exfam demo: interrupted\n"),
        (lambda: torch.zeros(2**55), 2, "exfam demo: Memory must suffice, got less."),
        (lambda: torch.zeros(2**62), 2, "exfam demo: Memory must suffice, got less."),
        (lambda: np.zeros(2**55), 2, "exfam demo: Memory must suffice, got less."),
    ],
)
def test_an_error_is_one_line_and_a_status(run_instead, capsys, action, status, message):
    run_instead(action)
    assert cli.main(["demo"]) == status
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and captured.out == ""


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), RuntimeError("a bug")])
def test_our_own_bugs_are_not_hidden(run_instead, error):
    run_instead(failing(error))
    with pytest.raises(type(error), match="a bug"):
        cli.main(["demo"])


def test_a_warning_is_one_line(run_instead, capsys):
    run_instead(lambda: warnings.warn("beware\nof this", UserWarning, stacklevel=1))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert cli.main(["demo"]) == 0
    assert capsys.readouterr().err == "exfam demo: warning: beware of this\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "exfam: a command must be given"),
        (["nothing"], "exfam: `COMMAND` must be one of exfam's, got 'nothing'."),
        (["scor"], "Did you mean score?"),
        (["reproduce", "nothing"], "`--name` must be one of 'efa-synthetic'"),
        (["reproduce", "--seeds", "many"], "`--seeds` must be a whole number, got 'many'."),
    ],
)
def test_what_cannot_be_read_is_one_line(words, message, capsys):
    assert cli.main(words) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and captured.out == ""


def test_the_version_and_every_command_are_shown(capsys):
    assert cli.main(["--version"]) == cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"exfam {__version__}\n")
    assert all(f"\n  {name} " in out for name in cli.commands())


def test_a_reader_who_leaves_is_no_error():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "exfam", "reproduce", "--list"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 141 and done.stderr == ""


def test_commands_that_cannot_be_imported_are_left_out(monkeypatch, capsys):
    broken = EntryPoint("more", "no_such_package:COMMANDS", ENTRY_POINTS)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [broken])
    assert commands.__wrapped__() == COMMANDS
    assert "the commands of 'more' are left out: No module named" in capsys.readouterr().err


def test_help_loads_nothing_heavy():
    code = """
import sys
from exfam.cli import main
for line in ("--help", "doctor --help", "reproduce --list", "reproduce --help", "fit --help",
             "fit --model table-classifier --help", "fit --model latent-factor --print_config"):
    heavy = {"torch", "sklearn", "scipy", "pandas", "matplotlib", "duckdb"}
    heavy |= {"pyarrow", "rich", "yaml"} if line == "--help" else set()
    assert main(line.split()) == 0 and not heavy & set(sys.modules), line
"""
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


ODD = {
    "name": ["a,b", 'say "x"', "two\nlines", "[bold]é\x1b[31m"],
    "nats": np.array([0.1, np.nan, -np.inf, 1 / 3]),
    "n": [1, 2, 3, 4],
}
FORMULAS = ["=cmd|' /C calc'!A0", "+1+cmd", "-2-3", "@SUM(A1)", "\t=1", "\r=1", "=", "-"]
PLAIN = ["a=b", "-5", "+1.5e3", "-.5", " =1", "'=1", "", "007", None]


def written(columns, form, capfd):
    deliver(columns, Destination(form))
    return capfd.readouterr().out


def test_json_is_json_whatever_it_holds(capfd):
    result = json.loads(written(ODD, "json", capfd))
    assert [row["name"] for row in result] == ODD["name"]
    assert [row["nats"] for row in result] == [0.1, None, "-Infinity", 1 / 3]
    assert json.loads(written({"name": pa.array([], pa.string())}, "json", capfd)) == []


def test_csv_is_exact(capfd):
    text = written({"nats": np.array([1 / 3, np.nan, 1e-300, 2.0])}, "csv", capfd)
    assert text.splitlines() == ['"nats"', repr(1 / 3), "", "1e-300", "2"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_csv_has_no_formulas_for_spreadsheets_and_other_formats_keep_texts(capfd, kind):
    texts = pa.array([*FORMULAS, *PLAIN], kind)
    rows = {"=name": texts, "n": -np.arange(len(texts)), "x": np.full(len(texts), -0.5)}
    table = pa.csv.read_csv(
        io.BytesIO(written(rows, "csv", capfd).encode()),
        convert_options=pa.csv.ConvertOptions(column_types={"'=name": kind}),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
    )
    shown = [f"'{text}" for text in FORMULAS] + [text or "" for text in PLAIN]
    assert table["'=name"].to_pylist() == shown
    assert table["n"].to_pylist() == rows["n"].tolist()
    assert table["x"].to_pylist() == rows["x"].tolist()
    kept = [row["=name"] for row in json.loads(written(rows, "json", capfd))]
    assert kept == texts.to_pylist()


def test_parquet_goes_to_a_pipe(capfdbinary):
    deliver({"name": FORMULAS}, Destination("parquet"))
    out = capfdbinary.readouterr().out
    assert pa.parquet.read_table(io.BytesIO(out)).to_pydict() == {"name": FORMULAS}


def test_a_table_in_a_pipe_or_file_is_whole_and_a_row_is_a_line(tmp_path, capfd):
    lines = written(ODD, "table", capfd).splitlines()
    assert len(lines) == 5 and lines[0].split() == ["name", "nats", "n"]
    assert lines[3].split() == ["two\\nlines", "-inf", "3"]
    assert "[bold]é\\x1b[31m" in lines[4] and not any(line.endswith(" ") for line in lines)
    rows = {"n": np.arange(SHOWN_ROWS + 5)}
    deliver(rows, Destination("table", tmp_path / "n.txt"))
    text = written(rows, "table", capfd)
    assert text == (tmp_path / "n.txt").read_text() and len(text.splitlines()) == SHOWN_ROWS + 6


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_table_of_its_width_and_the_first_rows(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stdout", page := Terminal())
    deliver({"name": ["x" * 100], "n": [1]}, Destination("table"))
    lines = Text.from_ansi(page.getvalue()).plain.splitlines()
    assert max(map(len, lines)) <= 40 and page.getvalue().count("x") == 100
    deliver({"n": np.arange(SHOWN_ROWS + 5)}, Destination("table"))
    assert capsys.readouterr().err == "5 more rows: --format csv writes all.\n"
    with pytest.raises(ExfamError, match="`--format` must be text on a terminal, got parquet"):
        destination("parquet", None)


@pytest.mark.parametrize(
    ("form", "output", "message"),
    [
        (None, "rows.xlsx", "`--output` must end in .txt, .csv, .json, .parquet, got 'rows.xlsx'"),
        ("csv", ".", "`--output` must be a file, got a folder at ."),
        ("csv", "FILE/rows.csv", "`--output` must lie in a folder"),
    ],
)
def test_a_file_that_cannot_be_is_refused_at_once(form, output, message, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ExfamError, match=message.replace(".", r"\.")):
        destination(form, output.replace("FILE", str(tmp_path / "file")))
    assert destination("json", str(tmp_path / "rows.csv")).format == "json"
    assert destination(None, str(tmp_path / "ROWS.CSV")).format == "csv"


def test_columns_of_taken_names_of_several_types_and_in_pieces():
    assert list(beside({"row": 1, "row_": 2}, {"row": 3})) == ["row", "row_", "row__"]
    assert arrow_column(np.array(["a", 1, None], dtype=object)).to_pylist() == ["a", "1", None]
    assert arrow_column(np.array([1, 2], dtype=object)).to_pylist() == [1, 2]
    pieces = [{"group": ["a"], "n": [1]}, {"group": ["b"], "n": [2]}]
    assert stacked(pieces).to_pydict() == {"group": ["a", "b"], "n": [1, 2]}


def test_facts_are_described_in_words():
    facts = ReadingFacts(rows=1, groups=1, ties=2, duplicates=1, unobserved=3)
    assert describe_rows(facts) == (
        "1 row, 1 group; 2 rows tied in order; 1 row dropped as duplicates; 3 rows without a value"
    )
