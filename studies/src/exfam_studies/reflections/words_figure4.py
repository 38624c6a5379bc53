"""Word vectors by the share of dimensions that are not reflected: Figure 4 of reflections.

The paper finds scores alike from 35 to 65 % of +1, and bad below 25 % and above 90 %; it prints no
figures. Fits of 17 shares are many: there are 5 negatives, where Table 2 has 25.
"""

from dataclasses import replace
from functools import partial

from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import metric_rows
from exfam_studies.common.rows import Row
from exfam_studies.common.word_fits import Recipe, WordStudy, judged_fit

TASKS = ("positive-share",)
RECIPE = Recipe(negatives=5)
# In percent of the dimensions.
SHARES = (0, 10, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 90, 100)
METRICS = (
    *(f"spearman-{name}-kept" for name in ("wordsim", "men", "simlex")),
    *(f"accuracy-{name}-kept" for name in ("google", "msr")),
)
PLOTTED = dict.fromkeys(METRICS, "percent")


def run(options: Options) -> list[Row]:
    """Fit and judge vectors of each share."""
    study = WordStudy(options)
    return gather(
        Job(f"{share} % of +1", partial(_rows, study, share))
        for share in ((0, 50, 100) if options.fast else SHARES)
    )


def _rows(study: WordStudy, share: int) -> list[Row]:
    settings = RECIPE.settings(study.options)
    fitted = {**settings, "tie": "reflection", "positive_share": share / 100}
    kept = study.kept((f"positive-{share:03}",), partial(judged_fit, study, fitted))
    shown: dict[str, str | int] = {"percent": share, "corpus": study.corpus, **settings}
    row = replace(study.row(TASKS[0], "sgns-wt", fitted), settings=shown, note="")
    return metric_rows(row, kept, METRICS)
