"""Instacart baskets of 63 items, as prepared by the authors of "Exponential Family Attention"."""

from io import BytesIO

import numpy as np
import pyarrow as pa
from pyarrow import csv

from exfam.checks import DataError
from exfam.reading.public_sets.published import PublicFiles, find_file, read_file

TRAIN, TEST, NAMES = (
    f"instacart/{name}.csv"
    for name in ("data_train_final", "data_test_final", "instacart_items_63")
)
SOURCE = PublicFiles(
    "instacart",
    how_to_get="The authors of the paper prepared this set: take data_train_final.csv and "
    "data_test_final.csv from the folder instacart of https://github.com/yixinw-lab/EFA, put them "
    "into FOLDER/instacart and set EXFAM_DATA=FOLDER. For names of the products put beside them "
    "instacart_items_63.csv with columns code,product_name[,aisle,department]: the code is 1 + the "
    "product's place in `unique_product_ids` of that folder's data_prep.ipynb, its name is in "
    "products.csv of https://www.kaggle.com/c/instacart-market-basket-analysis/data.",
    md5={TRAIN: "8fe213a4fe98291edfcf3197c90e9d63", TEST: "80893da5ef64aff6a21c4f920ba0a42a"},
)
N_PRODUCTS = 63


def instacart_table() -> pa.Table:
    """Baskets of at least 10 of 63 products, a row a product, in the order of being added.

    Columns `order`, `product` (its name; "product 7" where no file has the names), `rank` from
    1, `split` ("train" or "test"); with names also `aisle` and `department`, if their file has
    them. No product occurs twice in an order.
    Raises DataError if the files cannot be had or are not the published ones.
    """
    train, test = (read_rows(name) for name in (TRAIN, TEST))
    rows = pa.concat_tables([train, test])
    names = product_names()
    place = np.argsort(names["code"].to_numpy())[rows["product_id"].to_numpy() - 1]
    columns = {
        "order": rows["order_id"],
        "product": names["product_name"].take(pa.array(place)),
        "rank": rows["rank"],
        "split": pa.array(["train"] * len(train) + ["test"] * len(test)),
    }
    for name in ("aisle", "department"):
        if name in names.column_names:
            columns[name] = names[name].take(pa.array(place))
    return pa.table(columns)


def read_rows(name: str) -> pa.Table:
    """The rows of one of the files, as they are."""
    return csv.read_csv(BytesIO(read_file(SOURCE, name)))


def product_names() -> pa.Table:
    """The products by code; made-up names without the file, since the authors' files have none."""
    codes = np.arange(1, N_PRODUCTS + 1)
    path = find_file(NAMES)
    if path is None:
        return pa.table({"code": codes, "product_name": [f"product {code}" for code in codes]})
    got = "others"
    try:
        names = csv.read_csv(BytesIO(read_file(SOURCE, NAMES)))
        n_names = len(set(names["product_name"].to_pylist()))
        if sorted(names["code"].to_pylist()) == codes.tolist() and n_names == N_PRODUCTS:
            return names
    except (pa.ArrowInvalid, KeyError, TypeError) as error:
        got = f"something else ({error})"
    raise DataError(
        f"`{NAMES}` must have columns code (1 to {N_PRODUCTS}) and product_name, all different, "
        f"got {got} in {path}. Mend it, or remove it to do without names."
    )
