"""Joint draws at many sites: one value after the other, each given those near it that are there."""

import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.families import StudentT
from exfam.fields.base.conditionals import NearColumns, given_near, patterns, some_near
from exfam.fields.base.joint_draws import Wanted, levels_of


def levels_in_turn(
    rows: Float64[Tensor, "rows columns"],
    wanted: Wanted,
    near: NearColumns,
    df: float,
    *,
    n_used: int,
    tails: float | None = None,
    generator: torch.Generator,
) -> Float64[Tensor, "rows columns"]:
    """Probabilities below joint draws of what is missing in the targets' own columns; else 1/2.

    The approximation of Vecchia (1988), Estimation and model identification for continuous spatial
    processes: values are drawn in random order, each given the nearest of those shown and drawn.
    `tails`: of predicted values, as in `GivenOthers.student_t`
    """
    levels = torch.full(rows.shape, 0.5, dtype=torch.float64)
    for pattern, part in patterns(torch.cat([wanted.shown, wanted.missing], 1)):
        shown, missing = (which.clone() for which in pattern.chunk(2))
        targets = missing.nonzero()[:, 0]
        x = torch.where(shown, rows[part], 0.0)
        alone = given_near(x, shown.expand(len(x), -1), near.take(targets), n_used=n_used)
        for target in targets[torch.randperm(len(targets), generator=generator)]:
            given = some_near(x, shown[None], near.take(target[None]), n_used=n_used)
            x[:, target] = StudentT().sample(given.student_t(df, tails)[:, 0], generator=generator)
            shown[target] = True
        levels[part[:, None], targets] = levels_of(x[:, targets], alone.student_t(df, tails))
    return levels
