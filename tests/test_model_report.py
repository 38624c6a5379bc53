"""Whole reports, as pages."""

import re
from html import escape

import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam.efa.latent_factor import LatentFactor
from exfam.groups import Groups
from exfam.report import write_report
from page_reader import LOADED_FROM, Reader
from report_cases import AWKWARD, baskets, full_report, model

# What a report has, and whether it needs data, and items with vectors.
OF_DATA, OF_VECTORS = {"Data", "Scores", "Calibration"}, {"Map of items", "Items that go together"}
SECTIONS = {"The model", "Attention", *OF_DATA, *OF_VECTORS}
LARGEST = 500_000


def page(folder, fitted, data=None, **options):
    path = write_report(fitted, data, path=folder / "report.html", **options)
    return path.read_text(encoding="utf-8")


def left_out(text):
    """The sections of a page that say why they are empty; all must be there."""
    parts = re.split(r'<h2 id="s\d+">(.*?)</h2>', text)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert sections.keys() == SECTIONS
    return {name for name, part in sections.items() if "<p>Left out: " in part}


def test_a_report_has_all_sections_is_well_formed_and_loads_nothing():
    full = full_report()
    reader = Reader(full)
    assert reader.open == [] and len(set(reader.ids)) == len(reader.ids)
    assert not left_out(full)
    named = set(re.findall(r'(?:href="#|url\(#)([^")]+)', full))
    assert named and named <= set(reader.ids)
    assert len(full.encode()) < LARGEST
    assert not LOADED_FROM.findall(full)
    assert re.findall(r"<(script|link|img|iframe|object|embed)\b", full) == ["script"]


def test_names_of_items_are_words_whatever_they_hold():
    full = full_report()
    reader = Reader(full)
    assert "b" not in reader.tags and reader.tags.count("script") == 1
    for name in ("<script>alert(1)</script>", "寿司 🍣", "$x_1$ & <b>", "{{ 7 * 7 }}", "عطر"):
        assert escape(name, quote=False) in full.replace("&#34;", '"')
        assert name in reader.words
    assert "\u200d" not in full and "two lines and a tab" in reader.words
    assert next(name for name in AWKWARD if len(name) > 60) not in full
    svgs = "".join(re.findall(r"<svg.*?</svg>", full, flags=re.DOTALL))
    assert "寿司" in svgs and "□" not in svgs


@pytest.mark.parametrize("kind", ["efa", "latent-factor", "marginal"])
def test_a_report_leaves_out_what_it_was_not_given_and_the_model_has_not(tmp_path, kind):
    closed = kind == "marginal"
    lacking = OF_VECTORS if closed else set()
    text = page(tmp_path, model(kind))
    assert left_out(text) == {"Attention", *OF_DATA, *lacking}
    assert ("closed form" in text) == closed
    if kind != "efa":
        fitted = model(kind, direction="causal")
        text = page(tmp_path, fitted, baskets(n=12, seed=1), baselines=False)
        assert left_out(text) == {"Attention", *lacking}
        assert "Without cheap baselines, as chosen." in text


def test_large_catalogs_with_long_names_make_small_pages(tmp_path):
    random = np.random.default_rng(0)
    n = 40_000
    labels = np.array([f"{i} " + "<ö>&" * 60 for i in range(1000)], dtype=object)
    groups = Groups(
        start=np.arange(0, n, 2),
        stop=np.arange(2, n + 2, 2),
        item=(1000 * random.random(n) ** 3).astype(np.int32),
        vocabulary={"item": labels},
        group_names=np.array([str(i) + "g" * 300 for i in range(n // 2)], dtype=object),
    )
    fitted = LatentFactor(dim=2, max_epochs=1, batch_size=1000, progress=False, support="none")
    text = page(tmp_path, fitted.fit(groups[:2000]), groups, baselines=False)
    assert len(text.encode()) < LARGEST
    assert re.search(r"of [\d,]+ of 20,000 groups, drawn at random", text)
    assert "the 400 most frequent of 1,000 items" in text


def test_bad_seeds_and_data_without_targets_are_refused(tmp_path):
    with pytest.raises(ExfamError, match="`seed` must be an integer >= 0, got -1"):
        page(tmp_path, model("marginal"), baskets(n=12), seed=-1)
    groups = Groups(start=[0], stop=[0], item=[])
    with pytest.raises(ExfamError, match="`train` must hold at least one element to predict"):
        page(tmp_path, model("marginal", parts="items"), train=groups)
    assert not list(tmp_path.iterdir())
