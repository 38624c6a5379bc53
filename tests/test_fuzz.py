"""The fuzz campaign: what it sees of inputs that fail, and a few inputs of every category."""

import json
import subprocess
import sys

import fuzz.__main__ as command
from fuzz.attacks import ATTACKS
from fuzz.results import Results
from fuzz.verdicts import Verdict

from house.sources import ROOT

PLANTED = """
import os, resource, sys, time
from pathlib import Path
import numpy as np
from exfam.checks import check_whole
from fuzz.attacks import Attack
from fuzz.campaign import Limits, run_campaign
from fuzz.results import Results
from fuzz.verdicts import check_finite

def spin():
    while time.process_time():
        pass

ways = {
    "refused": lambda: check_whole("seed", -1, least=0),
    "traceback": lambda: check_whole(),
    "non-finite": lambda: check_finite("score", {"a": [1.0, np.nan]}),
    "hang": spin,
    "memory": lambda: np.ones(10**8),
    "death": lambda: os._exit(3),
}
order = ["accepted", "hang", "refused", "traceback", "memory", "non-finite", "death", "refused"]
shared = {int(np.random.default_rng(seed).integers(1 << 40)): way for seed, way in enumerate(order)}

def planted(random, shared, folder):
    way = shared[int(random.integers(1 << 40))]
    return ways[way]() if way in ways else None

in_use = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
results = Results(["planted"], seed=0)
run_campaign(
    [Attack("planted", lambda folder: shared, planted)], results, seconds=3600, n_processes=1,
    folder=Path(sys.argv[1]), n_inputs=len(order),
    limits=Limits(cpu_seconds=1, bytes=in_use + (400 << 20), chunk=len(order)),
)
results.write(Path(sys.argv[1], "results.json"))
"""


def run(*words):
    """Python at the root of the repository, where types are not checked while it runs."""
    done = subprocess.run(
        [sys.executable, *map(str, words)], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_every_kind_of_failure_is_seen_and_the_rest_go_on(tmp_path):
    run("-c", PLANTED, tmp_path)
    document = json.loads((tmp_path / "results.json").read_text())
    counts = document["categories"]["planted"]
    assert counts["inputs"] == counts["next_seed"] == 8
    expected = {"accepted": 1, "refused": 2, "hang": 1, "memory": 1, "non-finite": 1}
    assert {name: counts[name] for name in expected} == expected
    errors = {(failure["seed"], failure["outcome"]): failure for failure in document["failures"]}
    assert len(errors) == 5
    assert "check_whole" in errors[3, "traceback"]["error"]
    assert "status 3" in errors[6, "traceback"]["error"]
    assert errors[6, "traceback"]["replay"].endswith("--replay planted 6")


def test_a_few_inputs_of_every_category(tmp_path, capsys):
    file = tmp_path / "results.json"
    table = run("-m", "fuzz", "--inputs", len(ATTACKS), "--processes", 1, "--resume", file)
    categories = json.loads(file.read_text())["categories"]
    assert {name: counts["inputs"] for name, counts in categories.items()} == dict.fromkeys(
        ATTACKS, 1
    )
    assert all(name in table for name in ATTACKS)
    assert command.main(["--replay", "json-lines", "1"]) == 0
    assert "Verdict(outcome=" in capsys.readouterr().out


def test_results_go_on_where_they_stopped(tmp_path):
    results = Results(["csv"], seed=5)
    assert (results.reserve("csv", 2), results.reserve("csv", 2)) == (5, 7)
    for seed, error in ((5, "TypeError: a"), (6, "TypeError: b"), (7, "KeyError: b")):
        results.add("csv", seed, Verdict("traceback", "reader.py:3 read", error), 0.5)
    results.write(tmp_path / "results.json")
    again = Results.resumed(tmp_path / "results.json", ["csv", "frames"])
    assert again.reserve("csv", 1) == 9 and again.n_failed == 3
    assert [failure["times"] for failure in again.failures.values()] == [2, 1]
    assert again.spent("csv") > again.spent("frames") == 0
    assert "2x traceback at reader.py:3 read: TypeError: a" in again.table()


def test_a_few_kills_lose_nothing(tmp_path):
    file = tmp_path / "results.json"
    words = ["--kills", 2, "--processes", 1, "--resume", file]
    run("-m", "fuzz.kills", *words, "--only", "prepare", "fit latent-factor")
    document = json.loads(file.read_text())
    assert document["failures"] == []
    assert sum(counts["kills"] for counts in document["victims"].values()) >= 2
    assert len(document["victims"]) == 2
