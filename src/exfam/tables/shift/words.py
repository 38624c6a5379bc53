"""A shift report as plain text."""

from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

_WIDE = 400  # wider than any table: lines end where their text does


def shift_text(report: Mapping[str, Any]) -> str:
    """Tables of what is in `ShiftReport.as_dict`, without color; a dash for None."""
    rows = report["rows"]
    parts = [
        f"Whole rows, log p by the chain rule: {_number(rows['train'])} nats on train, "
        f"{_number(rows['new'])} on new, difference {_number(rows['difference'])} ± "
        f"{_number(rows['error'])} (z = {_z(rows['z'])}).",
        f"Flags (*): chance of any false one in a column of flags at most {report['level']:g} "
        "(Bonferroni).",
        _columns(report),
    ]
    if report["target"] is not None:
        parts.append(_target(report["target"]))
    if report["weights"] is not None:
        parts.append(_weights(report["weights"], report["drifted"]))
    return "\n\n".join(parts)


def _columns(report: Mapping[str, Any]) -> str:
    lines = [_column(column, report) for column in report["columns"]]
    header = [
        "column",
        "own distribution",
        "p",
        "",
        "log p given others",
        "difference",
        "z",
        "",
        "absent",
    ]
    return _table("Columns: train -> new", header, lines)


def _column(column: Mapping[str, Any], report: Mapping[str, Any]) -> list[str]:
    name, given, absent = column["name"], column["conditional"], column["absent"]
    own = column["marginal"]
    if "new_kl" in own:
        own_text = f"KL {_arrow(own['train_kl'], own['new_kl'])} nats"
    else:
        mean = _arrow(own.get("train_mean_shift"), own.get("new_mean_shift"))
        own_text = (
            f"mean {mean} sd, sd x {_arrow(own.get('train_sd_ratio'), own.get('new_sd_ratio'))}"
        )
    return [
        name,
        own_text,
        "-" if own["p"] is None else f"{own['p']:.2g}",
        "*" if name in report["shifted"] else "",
        _arrow(given["train"], given["new"]),
        f"{_number(given['difference'])} ± {_number(given['error'])}",
        _z(given["z"]),
        "*" if name in report["surprising"] else "",
        _arrow(absent["train"], absent["new"]),
    ]


def _target(target: Mapping[str, Any]) -> str:
    lines = []
    for key in ("predicted", "observed"):
        names = target["labels"] or ["mean"]
        lines += [
            [f"{key} {name}", *_move(move)] for name, move in zip(names, target[key], strict=True)
        ]
        if target[f"{key}_sd"] is not None:
            before, after = target[f"{key}_sd"]
            lines.append([f"{key} sd", _arrow(before, after), "", ""])
    return _table(f"Target {target['name']}", ["", "train -> new", "difference", "z"], lines)


def _weights(weights: Mapping[str, Any], drifted: Sequence[str]) -> str:
    lines = [[name, *_move(move), "*" if name in drifted else ""] for name, move in weights.items()]
    return _table("Mean expert weights", ["", "train -> new", "difference", "z", ""], lines)


def _move(move: Mapping[str, Any]) -> list[str]:
    difference = f"{_number(move['difference'])} ± {_number(move['error'])}"
    return [_arrow(move["train"], move["new"]), difference, _z(move["z"])]


def _table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in header:
        table.add_column(name, no_wrap=True)
    for line in lines:
        table.add_row(*line)
    out = StringIO()
    console = Console(file=out, width=_WIDE, color_system=None, markup=False, emoji=False)
    console.print(table)
    kept = [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]
    return "\n".join([f"{title}:", *kept])


def _arrow(before: float | None, after: float | None) -> str:
    return f"{_number(before)} -> {_number(after)}"


def _number(number: float | None) -> str:
    return "-" if number is None else f"{number:.3f}"


def _z(number: float | None) -> str:
    return "-" if number is None else f"{number:.1f}"
