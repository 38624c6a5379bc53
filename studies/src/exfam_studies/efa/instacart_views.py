"""What a model of the baskets has learned: Table 3, Figures 3 and 4 of section 6.3.

Table 3 ranks items j by delta_i . beta_j + delta_j . beta_i, delta the center and beta the context
vectors; as printed the rule repeats the first product, a misprint. "Lift" ranks them by what the
model itself says of baskets of one item: how much i makes j likelier, plus how much j does i.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from exfam.efa.efa import EFA
from exfam.efa.group_estimator import GroupEstimator
from exfam.groups import Groups
from exfam.plots import attention_map
from exfam_studies.common.fits import Contender, Fit
from exfam_studies.common.pictures import vector_map
from exfam_studies.common.provenance import changed_parameters
from exfam_studies.common.rows import Row, row_over_seeds

N_TOGETHER = 3
# Model and direction -> item -> the three that Table 3 prints, by the names of the data: there
# "Organic Celery" is "Organic Small Bunch Celery", "Organic Bananas" "Bag of Organic Bananas", and
# "Organic Red Black Pepper", which is no product, is read as "Organic Red Bell Pepper".
TABLE_3: dict[tuple[str, str], dict[str, tuple[str, str, str]]] = {
    ("latent-factor-notebook", "bidirectional"): {
        "Asparagus": (
            "Fresh Cauliflower", "Boneless Skinless Chicken Breasts", "Organic Zucchini"
        ),
        "Carrots": (
            "Organic Small Bunch Celery", "Organic Italian Parsley Bunch", "Yellow Onions"
        ),
        "Fresh Cauliflower": ("Organic Zucchini", "Asparagus", "Organic Raspberries"),
        "Organic Avocado": ("Banana", "Organic Baby Spinach", "Cucumber Kirby"),
    },
    ("latent-factor-notebook", "causal"): {
        "Asparagus": ("Fresh Cauliflower", "Raspberries", "Organic Zucchini"),
        "Carrots": ("Organic Small Bunch Celery", "Yellow Onions", "Original Hummus"),
        "Fresh Cauliflower": ("Organic Zucchini", "Asparagus", "Organic Yellow Onion"),
        "Organic Avocado": ("Organic Cilantro", "Blueberries", "Limes"),
    },
    ("efa-positions", "bidirectional"): {
        "Asparagus": ("Yellow Onions", "Organic Yellow Onion", "Organic Zucchini"),
        "Carrots": ("Organic Avocado", "Organic Blackberries", "Half & Half"),
        "Fresh Cauliflower": (
            "Organic Baby Spinach", "Extra Virgin Olive Oil", "Organic Red Bell Pepper"
        ),
        "Organic Avocado": ("Organic Cilantro", "Organic Garlic", "Red Vine Tomato"),
    },
    ("efa-positions", "causal"): {
        "Asparagus": ("Organic Garlic", "Half & Half", "Organic Baby Carrots"),
        "Carrots": ("Organic Baby Carrots", "Organic Garlic", "Organic Red Onion"),
        "Fresh Cauliflower": ("Organic Zucchini", "Organic Yellow Onion", "Organic Raspberries"),
        "Organic Avocado": (
            "Bag of Organic Bananas", "Organic Baby Spinach", "Extra Virgin Olive Oil"
        ),
    },
}  # fmt: skip
RULES = ("vectors", "lift")


def together_rows(contender: Contender, fits: Sequence[Fit], task: str) -> list[Row]:
    """The items bought together with Table 3's, and how many of its three are among them.

    A row an item and rule, for the models and the support that the table has; the names are those
    of the first fit, the count is the mean over all. No rows where products have no names.
    """
    printed = TABLE_3.get((contender.model, task.removeprefix("instacart-")))
    if printed is None or contender.settings["support"] != "all":
        return []
    known = fits[0].estimator.vocabulary_["item"].tolist()
    return [
        _together_row(contender, fits, task, item=item, rule=rule)
        for item in printed
        for rule in RULES
        if item in known
    ]


def _together_row(
    contender: Contender, fits: Sequence[Fit], task: str, *, item: str, rule: str
) -> Row:
    printed = set(TABLE_3[contender.model, task.removeprefix("instacart-")][item])
    found = [together(fit.estimator, item, rule=rule) for fit in fits]
    settings = {**contender.settings, "item": item, "rule": rule, "together": ", ".join(found[0])}
    return row_over_seeds(
        Row(
            task=f"{task}-together",
            model=contender.model,
            settings=settings,
            metric="count-in-table-3",
            parameters=changed_parameters(fits[0].estimator),
        ),
        values=[float(len(printed.intersection(names))) for names in found],
    )


def together(estimator: GroupEstimator, item: str, *, rule: str = "vectors") -> list[str]:
    """The three items bought together with `item`, by Table 3's rule or by lift."""
    if rule == "lift":
        return estimator.complements(item, k=N_TOGETHER).items.tolist()
    model: Any = estimator  # only EFA and latent factor models have vectors
    names = model.vocabulary_["item"].tolist()
    code = names.index(item)
    delta, beta = model.item_vectors_, model.item_context_vectors_
    strength = beta @ delta[code] + delta @ beta[code]
    strength[code] = -np.inf
    return [names[other] for other in np.argsort(-strength, kind="stable")[:N_TOGETHER]]


def draw_views(estimator: EFA, baskets: Groups, folder: Path) -> list[Path]:
    """Figures 3 (attention in each basket) and 4 (vectors of each head of layer 1); their files."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {
        f"basket-{number + 1}-attention": attention_map(explanation, heads="mean")
        for number, explanation in enumerate(estimator.explain(baskets))
    }
    names = estimator.vocabulary_["item"].tolist()
    for number, vectors in enumerate(head_vectors(estimator)):
        figures[f"layer-1-head-{number + 1}"] = vector_map(vectors, names)
    written = []
    for name, figure in figures.items():
        path = folder / f"efa-instacart-{name}.png"
        figure.savefig(path, format="png", dpi=120, facecolor="white")
        written.append(path)
    return written


def head_vectors(estimator: EFA) -> list[dict[str, Float[np.ndarray, "items head"]]]:
    """Query, key and value of every item in each head of layer 1, without its position.

    Where keys come from each token alone ("static"), only hidden centers ask: there an item's query
    is what it would ask, and plays no part.
    Source: "Exponential Family Attention", Figure 4 (W^Q beta, W^K beta, W^V beta).
    """
    network: Any = estimator.members_[0].item_part
    block: Any = network.blocks[0]  # nn.Module's attributes have no better type
    beta = torch.from_numpy(estimator.item_context_vectors_)[None]
    start = torch.zeros(beta.shape[:2], dtype=torch.int64)
    with torch.inference_mode():
        of_kind: dict[str, Tensor] = {"query": block.queries(beta, start)}
        of_kind["key"], of_kind["value"] = block.keys(beta, start)
    return [
        {kind: vectors[0, head].numpy() for kind, vectors in of_kind.items()}
        for head in range(block.attention.n_heads)
    ]
