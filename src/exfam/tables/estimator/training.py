"""From the plan of a table's fit to a trained model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from exfam.estimator.plain import identified
from exfam.estimator.rules import python_number
from exfam.tables.estimator.plan import Recipe, TablePlan
from exfam.tables.networks.assemble import build_masked_table
from exfam.tables.networks.masked_table_model import MaskedTableModel
from exfam.tables.networks.objective import MaskedCells
from exfam.tables.networks.table_network import TableSettings
from exfam.training.history import History
from exfam.training.optimizer import TrainingSettings, choose_device
from exfam.training.steps import fit

# Parameters that do not make a fit another one.
_IRRELEVANT = ("progress", "unknown", "decision", "device")

# More rows than this decide nothing more.
MANY_ROWS = 8000
_FEWEST_STEPS, _STEPS_PER_ROOT, _ROWS = 160, 3.5, 15_000
_MOST_DECAY, _DECAY_ROWS = 0.5, 1000
_LEARNING_RATES = {"linear": 1.5e-2, "deep": 5e-3}
# In a deep network each target takes a pass of its own.
_N_TARGETS = {"linear": 8, "deep": 2}


@dataclass(frozen=True, eq=False)
class FittedTable:
    """What a fit leaves behind."""

    model: MaskedTableModel
    history: History
    settings: TableSettings


def model_settings(
    estimator: Any, recipes: Sequence[Recipe], *, response: str | None
) -> TableSettings:
    """The choices about the network among an estimator's parameters."""
    masked = estimator.unlabeled == "mask" and response is not None
    return TableSettings(
        network=estimator.network,
        categories=estimator.categories,
        ordinal=tuple(recipe.ordinal for recipe in recipes),
        embed_dim=int(estimator.embed_dim),
        n_heads=int(estimator.n_heads),
        head_dim=int(estimator.head_dim),
        n_layers=int(estimator.n_layers),
        feed_forward_dim=int(estimator.feed_forward_dim),
        dropout=float(estimator.dropout),
        norm="pre",
        masked_columns=(str(response),) if masked else (),
        encoding=estimator.encoding,
        positive_in_units=True,
    )


def train_model(
    estimator: Any,
    plan: TablePlan,
    recipes: Sequence[Recipe],
    *,
    weight: np.ndarray | None = None,
    own_orders: bool = False,
    progress: bool,
) -> FittedTable:
    """One network per recipe, side by side, all of the first one's length.

    `weight`: one number per member and row, in place of the plan's one per row (default None)
    `own_orders`: whether each network meets the rows in an order of its own (default False)
    """
    response = None if plan.response is None else plan.schema.names[plan.response]
    settings = model_settings(estimator, recipes, response=response)
    device = choose_device(estimator.device)
    model = build_masked_table(
        plan.schema,
        settings,
        families=plan.families,
        cells=plan.cells,
        generator=torch.Generator().manual_seed(int(estimator.seed)),
    ).to(device)
    history = fit(
        model,
        objective=objective_of(estimator, plan, recipes),
        train=model.rows(
            plan.cells,
            plan.weight if weight is None else weight,
            generator=np.random.default_rng(int(estimator.seed)) if own_orders else None,
        ),
        validation=None if plan.validation is None else model.rows(plan.validation),
        settings=schedule(estimator, len(plan.cells), length=recipes[0].length),
        progress=progress,
        checkpoint=identified(plan.checkpoint, estimator, irrelevant=_IRRELEVANT),
    )
    return FittedTable(model, history, settings)


def objective_of(estimator: Any, plan: TablePlan, recipes: Sequence[Recipe]) -> MaskedCells:
    """What such a fit minimizes."""
    return MaskedCells(
        response=plan.response,
        response_share=python_number(estimator.response_share),
        extra_masking=tuple(recipe.extra_masking for recipe in recipes),
        masked_as=estimator.masked_as,
        n_targets=int(_or_auto(estimator.n_targets, _N_TARGETS[estimator.network])),
    )


def schedule(estimator: Any, n_rows: int, *, length: int = 1) -> TrainingSettings:
    """Settings of the training, with "auto" by the number of rows.

    An eighth of the rows in a batch, 64 to 256; of long tables a 64th, up to 1,024. 3.5 sqrt(rows)
    steps, at least 160, and at least as many as show 15,000 rows, or have room for them. A prior
    weighs as 1,000 rows do: so does weight decay, up to 0.5. Measured on simulated tables that are
    in no benchmark, and on parts of training rows held out.

    `length`: multiplies the steps, those of the first 8,000 rows at most (default 1)
    """
    size = int(_or_auto(estimator.batch_size, _batch_size(n_rows)))
    longer = length * math.sqrt(min(n_rows, MANY_ROWS))
    steps = max(_FEWEST_STEPS, _STEPS_PER_ROOT * max(math.sqrt(n_rows), longer))
    epochs = max(1, round(steps / math.ceil(n_rows / size)), round(_ROWS / max(n_rows, size)))
    decay = min(_MOST_DECAY, _DECAY_ROWS / n_rows)
    return TrainingSettings(
        learning_rate=_or_auto(estimator.learning_rate, _LEARNING_RATES[estimator.network]),
        weight_decay=_or_auto(estimator.weight_decay, decay),
        batch_size=size,
        max_epochs=int(_or_auto(estimator.max_epochs, epochs)),
        patience=int(estimator.patience),
        warmup=python_number(estimator.warmup),
        clip=None,
        seed=int(estimator.seed),
        device=estimator.device,
    )


def _batch_size(n_rows: int) -> int:
    """A power of 2."""
    short, long = (2 ** round(math.log2(max(1.0, n_rows / share))) for share in (8, 64))
    return max(64, min(256, short), min(1024, long))


def _or_auto(value: Any, automatic: int | float) -> Any:
    return automatic if isinstance(value, str) and value == "auto" else python_number(value)
