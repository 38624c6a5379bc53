"""Word vectors by the share of dimensions that are not reflected: Figure 4 of reflections.

The paper finds scores alike from 35 to 65 % of +1, and bad below 25 % and above 90 %; it prints no
figures. Fits of 17 shares are many: there are 5 negatives, where Table 2 has 25.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

from exfam.reading.text import PreparedText
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Store, kept_seeds, metric_rows
from exfam_studies.common.rows import Row
from exfam_studies.common.word_corpus import corpus_name, read_corpus
from exfam_studies.common.word_fits import MIN_COUNT, Recipe, judged_fit, word_row

TASKS = ("positive-share",)
SEEDS = 3
RECIPE = Recipe(negatives=5)
# In percent of the dimensions.
SHARES = (0, 10, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 90, 100)
FAST_SHARES = (0, 50, 100)
METRICS = (
    *(f"spearman-{name}-kept" for name in ("wordsim", "men", "simlex")),
    *(f"accuracy-{name}-kept" for name in ("google", "msr")),
)
PLOTTED = dict.fromkeys(METRICS, "percent")


def run(options: Options) -> list[Row]:
    """Fit and judge vectors of each share."""
    read = cache(partial(read_corpus, options, min_count=MIN_COUNT))
    return gather(
        Job(f"{share} % of +1", partial(_rows, share, read=read, options=options))
        for share in (FAST_SHARES if options.fast else SHARES)
    )


def _rows(share: int, *, read: Callable[[], PreparedText], options: Options) -> list[Row]:
    settings, name = RECIPE.settings(options), corpus_name(options)
    fitted = {**settings, "tie": "reflection", "positive_share": share / 100}
    measure = partial(judged_fit, read, fitted, options)
    names = (name, f"positive-{share:03}")
    kept = kept_seeds(Store(options.folder), names, options.n_seeds(SEEDS), measure)
    shown: dict[str, Any] = {"percent": share, "corpus": name, **settings}
    row = replace(word_row(TASKS[0], "sgns-wt", fitted, options), settings=shown, note="")
    return metric_rows(row, kept, METRICS)
