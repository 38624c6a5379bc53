"""Instacart baskets as split in the notebooks of "Exponential Family Attention"."""

import numpy as np
import pyarrow as pa

from exfam.checks import check_choice
from exfam.groups import Groups
from exfam.reading.public_sets.instacart import TEST, TRAIN, product_names, read_rows
from exfam_studies.common.splits import SPLITS, Splits, notebook_parts

# Baskets to fit on, to choose by and to report on: those of the notebooks.
SIZES = (18_585, 6_196, 1_433)


def instacart_baskets(split: str = "paper", *, seed: int = 0) -> Splits:
    """Which products each basket holds, in the order of being added: 26,214 baskets.

    `split`: "paper" for the parts of the paper's notebooks; "correct" for a random split of all
        baskets into parts of the same sizes, by `seed`. The authors' test baskets are those of
        another part of Instacart's data, with an average length like the others'

    Source: section 6.3 and Appendix H.3 of the paper and its notebooks.
    """
    check_choice("split", split, SPLITS)
    # All baskets, those to be tested on last; row r is row r of the table.
    rows = pa.concat_tables([read_rows(TRAIN), read_rows(TEST)])
    order = rows["order_id"].to_numpy()
    start = np.flatnonzero(np.append(True, order[1:] != order[:-1]))
    names = product_names().sort_by("code")["product_name"]
    groups = Groups(
        start=start,
        stop=np.append(start[1:], len(order)),
        item=rows["product_id"].to_numpy() - 1,
        vocabulary={"item": np.array(names.to_pylist(), dtype=object)},
        source_row=np.arange(len(order)),
        group_names=order[start],
        ordered=True,
    )
    if split == "correct":
        return Splits(*groups.split([size / sum(SIZES) for size in SIZES], seed=seed))
    n_fit = len(groups) - SIZES[-1]
    train, validation = notebook_parts(n_fit)
    return Splits(train=groups[train], validation=groups[validation], test=groups[n_fit:])
