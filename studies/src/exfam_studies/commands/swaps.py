"""`exfam probe swaps`."""

import json
from pathlib import Path
from typing import Any

from exfam.checks import ExfamError
from exfam.cli.kinds import text
from exfam.cli.options import Form, Option, count
from exfam.cli.writable import check_may_write

_NOTES = """FILE has JSON lines as in SNLI: sentence1 (the premise), sentence2 (the hypothesis),
gold_label, sentence1_parse and sentence2_parse. In shuffle-3, -4 and -5 the words of all phrases of
so many words change places, in shuffle-all those of the whole premise; labels stay. In swap-roles
agent and patient of a verb change places, in the premise or else in the hypothesis, of pairs that
entail: they contradict then. Of n pairs with a label and parses, `pairs` could be changed. With
--model, a sentence classifier of such pairs, `before` and `after` are its accuracies on these pairs
as they were and as they are; `low` and `high` hold 95 % of the changes when premises are drawn
anew."""


def _swap(chosen: Any) -> None:
    """Make the pairs; print how many there are of each kind, and some of them."""
    from exfam.cli.output import Destination, deliver
    from exfam_studies.positions.snli import read_snli
    from exfam_studies.positions.swaps.sets import swap_sets

    out = None if chosen.out is None else _writable(Path(chosen.out), source=Path(chosen.file))
    try:
        pairs = read_snli(chosen.file)
    except ExfamError as error:
        raise ExfamError(str(error).replace("`path`", "`FILE`")) from error
    sets = swap_sets(pairs, seed=chosen.seed)
    columns = {
        "swap": [own.name for own in sets],
        "n": [own.n_tried for own in sets],
        "pairs": [len(own) for own in sets],
        "premises": [len({pair.before.premise for pair in own.pairs}) for own in sets],
    }
    if chosen.model is not None:
        columns |= _scores(sets, chosen.model, chosen.seed)
    deliver(columns, Destination("table"))
    for own in sets:
        # One of several pairs of a premise is enough.
        changed = dict.fromkeys(
            (getattr(pair.before, pair.side), getattr(pair, pair.side)) for pair in own.pairs
        )
        for before, after in list(changed)[: chosen.examples]:
            print(f"\n{own.name}: {before}\n{' ' * len(own.name)}  {after}")
    if out is not None:
        _write(sets, out)


def _writable(path: Path, *, source: Path) -> Path:
    if path.is_dir():
        raise ExfamError(f"`--out` must be a file, got a folder at {path}.")
    if path.exists() and source.exists() and path.samefile(source):
        raise ExfamError(
            f"`--out` must be another file than FILE, got {path} for both. Name a new file."
        )
    check_may_write("--out", path)
    return path


def _scores(sets: Any, folder: str, seed: int) -> dict[str, list[Any]]:
    """Accuracies of a model; nothing where no pair could be changed."""
    from exfam.language import SentenceClassifier
    from exfam_studies.positions.snli import LABELS
    from exfam_studies.positions.swaps.sets import swap_accuracy

    model = SentenceClassifier.load(folder)
    unknown = sorted(set(map(str, model.classes_)) - set(LABELS))
    if unknown:
        raise ExfamError(
            f"`--model` must predict labels among {', '.join(LABELS)}, "
            f"got {unknown[0]!r} in {folder}."
        )
    scores = [
        swap_accuracy([model.predict], pairs, seed=seed) if len(pairs) else None for pairs in sets
    ]
    return {
        "before": [score and score.before.mean for score in scores],
        "after": [score and score.after.mean for score in scores],
        "low": [score and score.change.low for score in scores],
        "high": [score and score.change.high for score in scores],
    }


def _write(sets: Any, path: Path) -> None:
    from exfam.reading.streams import written
    from exfam_studies.positions.swaps.sets import VERSION

    def record(pair: Any) -> dict[str, Any]:
        return {"sentence1": pair.premise, "sentence2": pair.hypothesis, "gold_label": pair.label}

    with written(path) as file:
        for own in sets:
            for pair in own.pairs:
                line = {"swap": own.name, "version": VERSION} | record(pair)
                line["before"] = record(pair.before)
                file.write(f"{json.dumps(line, ensure_ascii=False)}\n".encode())


SWAPS = Form(
    "probe swaps",
    "Make pairs of sentences whose words change places, with the same or the opposite meaning",
    [
        Option("file", text, "parsed pairs of sentences, JSON lines, also .gz", metavar="FILE",
               positional=True, required=True),
        Option("out", text, "write all changed pairs to this file, as JSON lines", metavar="FILE"),
        Option("model", text, "a saved classifier of pairs, to be scored on them",
               metavar="FOLDER"),
        count("examples", "print so many of each kind", default=2),
        count("seed", "of the shuffling", default=0),
    ],
    run=_swap,
    example="exfam probe swaps pairs.jsonl --out swaps.jsonl",
    notes=_NOTES,
)  # fmt: skip
