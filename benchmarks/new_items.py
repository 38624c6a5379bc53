"""Items that nobody has had yet: nats and ranks of their first purchases, beside simple rivals.

    python benchmarks/new_items.py                          # half an hour of one core
    python benchmarks/new_items.py --only movielens-random
    python benchmarks/new_items.py --out benchmarks/results/new_items.json

MovieLens 100K (users; year and genres of movies), Online Retail (receipts; words and price of
articles), Instacart (baskets; departments and aisles of products) and InstEval (students; lecturers
by department and age), with a fifth of the items held out at random; of MovieLens also those that
first occur in the last fifth of the time. Training has neither these items nor the test groups.
Every model then predicts each item of a test group from the others over the whole catalog, new
items included; what counts are the first ten times that a new item occurs in the test groups.
Rivals say which of the new items comes: how probable any of them is, and the old items, are those
of the model for all. Each rival has a weight of its score, chosen as the model's own weights are,
by a fifth of the old items at a time that are hidden, in validation groups. Nothing is chosen by
test groups. First the base alone, then of MovieLens one member with attention and one seed.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from benchmarks.kept import write_kept
from rich.console import Console
from rich.table import Table
from torch import Tensor

from exfam import EFA
from exfam.efa.attributes import weigh_new
from exfam.estimator.evaluate import item_log_probs
from exfam.groups import Batch, Groups
from exfam.scores.metrics import gain_at, paired_bootstrap, ranks

DATA = Path(os.environ.get("EXFAM_DATA", "data"))
GENRES = [f"genre {number}" for number in range(1, 19)]
FIRST, K = 10, 10
N_BASKETS, N_RECEIPTS, LEAST_SOLD, LEAST_WITH_WORD = 3_000, 3_000, 40, 20
OURS = "EFA with attributes"
RIVALS = ("popularity of category", "popularity by ridge", "content kNN", "linear on features")
console = Console(highlight=False, width=130)


@dataclass(frozen=True)
class Case:
    """Rows of groups and items in the order of time, and a table of attributes."""

    rows: pd.DataFrame
    attributes: pd.DataFrame


def movielens() -> Case:
    """Users and movies; the year of a movie and its genres."""
    names = ["group", "item", "stars", "time"]
    rows = pd.read_csv(DATA / "movielens" / "u.data.gz", sep="\t", names=names)
    movies = pd.read_csv(DATA / "movielens" / "u.item.gz", sep="|", header=None, encoding="latin-1")
    table = pd.DataFrame({"item": movies[0], "year": movies[2].str[-4:].astype(float)})
    table[GENRES] = movies[list(range(6, 24))].to_numpy()
    return Case(rows.sort_values("time", kind="stable")[["group", "item", "time"]], table)


def online_retail() -> Case:
    """Receipts, drawn at random, and articles; words of their descriptions, and prices."""
    folder = DATA / "suite" / "baskets"
    rows = pd.read_csv(folder / "online_retail.csv.gz", dtype={"invoice": str, "stock_code": str})
    is_sale = (
        (rows["quantity"] > 0) & (rows["unit_price"] > 0) & ~rows["invoice"].str.startswith("C")
    )
    rows = rows[is_sale & rows["stock_code"].str.contains(r"\d")]
    price = np.log(rows.groupby("stock_code")["unit_price"].median())
    rows = rows.drop_duplicates(["invoice", "stock_code"])
    invoices = np.sort(rows["invoice"].unique())
    chosen = np.random.default_rng(0).choice(invoices, N_RECEIPTS, replace=False)
    rows = rows[rows["invoice"].isin(chosen)]
    sold = rows["stock_code"].value_counts()
    texts = pd.read_csv(folder / "online_retail_items.csv.gz", dtype=str)
    table = pd.DataFrame({"item": texts["stock_code"], "text": texts["description"].fillna("")})
    table = table[table["item"].isin(sold[sold >= LEAST_SOLD].index)].reset_index(drop=True)
    words = table.pop("text").str.lower().str.findall(r"[a-z]{3,}").map(set)
    count = words.explode().value_counts()
    for word in sorted(count[count >= LEAST_WITH_WORD].index):
        table[f"word {word}"] = [float(word in own) for own in words]
    table["log price"] = table["item"].map(price)
    rows = rows[rows["stock_code"].isin(table["item"])].sort_values("invoice_time", kind="stable")
    names = {"invoice": "group", "stock_code": "item", "invoice_time": "time"}
    return Case(rows.rename(columns=names)[["group", "item", "time"]], table)


def instacart() -> Case:
    """Baskets, drawn at random, and products; their departments and aisles."""
    folder = DATA / "instacart"
    rows = pd.read_csv(folder / "data_train_final.csv.gz")
    rows.columns = ["group", "item", "time"]
    groups = np.sort(rows["group"].unique())
    rows = rows[rows["group"].isin(np.random.default_rng(0).choice(groups, N_BASKETS, False))]
    rows = rows.drop_duplicates(["group", "item"])
    table = pd.read_csv(folder / "instacart_items_63.csv.gz")[["code", "aisle", "department"]]
    return Case(rows, table.rename(columns={"code": "item"}))


def insteval() -> Case:
    """Students and lecturers whom they rated; departments and ages of these."""
    rows = pd.read_csv(DATA / "suite" / "ratings" / "insteval.csv.gz")
    by = rows.groupby("lecturer")
    table = pd.DataFrame({"department": by["dept"].agg(lambda own: f"d{own.mode()[0]}")})
    table["age"], table["service"] = by["lectage"].mean(), by["service"].mean()
    rows = rows.rename(columns={"student": "group", "lecturer": "item"}).assign(time=0)
    rows = rows[["group", "item", "time"]].drop_duplicates()
    return Case(rows, table.rename_axis("item").reset_index())


DATA_SETS: dict[str, Callable[[], Case]] = {
    "movielens": movielens,
    "online-retail": online_retail,
    "instacart": instacart,
    "insteval": insteval,
}
# No article that is sold often first occurs in the last fifth of the time.
CASES = [f"{name}-random" for name in DATA_SETS] + ["movielens-time"]
WITH_ATTENTION = ["movielens-random"]


def split_of(case: Case, how: str, seed: int) -> tuple[pd.DataFrame, pd.DataFrame, set]:
    """Rows to train on, rows of test groups, and the items that are new there."""
    rows, random = case.rows, np.random.default_rng([seed, 3])
    items = np.sort(rows["item"].unique())
    if how == "random":
        new = set(random.choice(items, len(items) // 5, replace=False).tolist())
        groups = np.sort(rows["group"].unique())
        tested = rows["group"].isin(random.choice(groups, len(groups) // 5, replace=False))
    else:
        # Groups that begin in the last fifth of the time, and items that first occur there.
        begins = rows.groupby("group")["time"].transform("min")
        limit = begins.iloc[int(0.8 * len(rows))]
        tested = begins >= limit
        new = set(items.tolist()) - set(rows.loc[~tested, "item"].tolist())
    train = rows[~tested & ~rows["item"].isin(new)]
    old = set(train["item"].tolist())
    test = rows[tested & rows["item"].isin(old | new)]
    return train, test, new & set(test["item"].tolist())


def of_genre(attributes: Any, like: np.ndarray, new: Tensor) -> Tensor:
    """The mean log count of `like` items of the same categories, the mean over these."""
    log_count = np.log(attributes.count[like] + 0.5)
    has_old, has = attributes.features[like] > 0, new.numpy() > 0
    of_category = (has_old * log_count[:, None]).sum(0) / np.maximum(has_old.sum(0), 1)
    level = (has @ of_category) / np.maximum(has.sum(1), 1)
    level[has.sum(1) == 0] = log_count.mean()
    return torch.from_numpy(level).float()


def content_knn(features: Tensor, new: Tensor, context: Tensor) -> Tensor:
    """The mean cosine of each new item's features with the ten nearest items of each context."""
    unit = torch.nn.functional.normalize(features, dim=1)
    cosine = unit @ torch.nn.functional.normalize(new, dim=1).T
    out = []
    for row in context:
        held = cosine[row.nonzero()[:, 0]]
        nearest = held.topk(min(10, len(held)), dim=0).values if len(held) else held[:0]
        out.append(nearest.mean(0) if len(held) else torch.zeros(len(new)))
    return torch.stack(out)


def linear(features: Tensor, taste: Tensor, context: Tensor) -> Tensor:
    """x_j . W'(1, mean x of the context), fitted by softmax to old items; `taste`: W x_j."""
    profile = context @ features / context.sum(1, keepdim=True).clamp_min(1)
    return torch.cat([torch.ones(len(profile), 1), profile], 1) @ taste.T


class RivalsOfHidden(weigh_new._Hiding):
    """What rivals say of hidden items, in place of what the model does."""

    def _scores(self, batch: Batch, where: Any) -> list[Tensor]:
        added, *_ = super()._scores(batch, where)
        context = contexts(batch, where, len(self.like))
        new = self.features[self.hidden]
        genre = of_genre(self.attributes, self.like, new)
        rivals = [
            genre.expand_as(added),
            self.popularity.expand_as(added),
            content_knn(self.features, new, context),
            linear(self.features, self.taste, context),
        ]
        return [added, *[torch.zeros_like(added)] * len(weigh_new._WIDTHS), *rivals]


def contexts(batch: Batch, where: Any, n_items: int) -> Tensor:
    """Which items are in the context of each target: all others of its group."""
    assert batch.item is not None
    held = torch.zeros(len(batch.item), n_items + 1)
    held.scatter_(1, torch.where(batch.present, batch.item, n_items).long(), 1.0)
    return held[where[0]].scatter(1, batch.item[where][:, None].long(), 0.0)[:, :n_items]


def weigh_rivals(model: EFA, train: Groups, validation: Groups, *, seed: int) -> list[float]:
    """The weight of each rival's score by hidden items, as the model weighs its own."""
    attributes: Any = model.item_attributes_
    items = np.flatnonzero(attributes.sources)
    order = np.random.default_rng([seed, 11]).permutation(items)
    hidden = np.array_split(order, weigh_new._PARTS)[: weigh_new._SCORED]
    member = model.members_[0]
    parts = [
        RivalsOfHidden(member, train, attributes, np.sort(some), seed).scored(validation)
        for some in hidden
    ]
    weights = []
    for number in range(len(RIVALS)):
        scores = [[part.others[number]] for part in parts]
        found, _ = weigh_new.fit_weights(parts, scores, center=torch.zeros(1), hold=1e-4)
        weights.append(float(found))
    return weights


def first_times(item: np.ndarray, is_new: np.ndarray) -> np.ndarray:
    """Which elements are among the first ten of their new item."""
    number = pd.Series(item).groupby(item).cumcount().to_numpy()
    return is_new & (number < FIRST)


def measure(name: str, *, seed: int, attention: bool) -> list[dict[str, Any]]:
    """Figures of all models on one data set and split; with attention also those of old items."""
    data_set, _, how = name.rpartition("-")
    case = DATA_SETS[data_set]()
    train, test, new = split_of(case, how, seed)
    table = case.attributes
    held_out = np.random.default_rng([seed, 4]).permutation(np.sort(train["group"].unique()))
    is_held_out = train["group"].isin(held_out[: len(held_out) // 10])
    validation = train[is_held_out]
    train = train[~is_held_out]
    validation = validation[validation["item"].isin(set(train["item"].tolist()))]
    test = test[test["item"].isin(new | set(train["item"].tolist()))]
    columns = {"group": "group", "item": "item", "progress": False, "support": "hard"}
    options: dict[str, Any] = {"ensemble": 1} if attention else {"attention": "none"}
    is_old = table["item"].isin(set(train["item"].tolist()))
    old_test = test[~test["item"].isin(new)]
    old: dict[str, Any] = {}
    if attention:
        plain = EFA(**columns, seed=seed, **options).fit(train, validation=validation)
        old["old_nats_without_attributes"] = plain.log_prob_parts(old_test)["item"]
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = EFA(**columns, seed=seed, **options)
        model.fit(train, validation=validation, item_attributes=table[is_old])
    seconds = round(time.process_time() - begin, 1)
    old["old_nats"] = model.log_prob_parts(old_test)["item"]
    figures: dict[str, Any] = {name: float(nats.mean()) for name, nats in old.items()}
    if attention:
        gain = old["old_nats"] - old["old_nats_without_attributes"]
        figures["old_gain"] = list(paired_bootstrap(gain, _codes(old_test["group"]), seed=0))
    facts = {
        "case": name,
        "attention": attention,
        "seed": seed,
        "train_groups": int(train["group"].nunique()),
        "train_elements": len(train),
        "old_items": int(is_old.sum()),
        "new_items": len(new),
        "features": model.item_attributes_.features.shape[1],
        "weights": str(model.item_attributes_.weights),
        "cpu_seconds": seconds,
        **figures,
    }
    trained, held_out = (model._inputs(rows).groups for rows in (train, validation))
    slopes = weigh_rivals(model, trained, held_out, seed=seed)
    larger = model.with_items(table[table["item"].isin(new)])
    rows = answers(model, larger, slopes, test, new)
    return [facts | row for row in rows]


def _codes(labels: pd.Series) -> np.ndarray:
    return np.unique(labels.to_numpy(), return_inverse=True)[1]


def answers(
    model: EFA, larger: EFA, slopes: list[float], test: pd.DataFrame, new: set
) -> list[dict[str, Any]]:
    """One row a model: nats and NDCG of first purchases, and how far the model is ahead."""
    inputs = larger._inputs(test)
    groups, n_old = inputs.groups, len(model.vocabulary_["item"])
    item = test["item"].to_numpy()
    is_first = first_times(item, test["item"].isin(new).to_numpy())
    number = inputs.spread(np.arange(groups.n_rows).astype(float)).astype(int)
    first, by = np.zeros(groups.n_rows, dtype=bool), np.zeros(groups.n_rows, dtype=int)
    first[number], by[number] = is_first, _codes(test["item"])
    attributes: Any = larger.item_attributes_
    features, n_items = torch.from_numpy(attributes.features).float(), len(attributes.features)
    like, of_new = attributes.sources, features[n_old:]
    taste = of_new @ torch.from_numpy(attributes.taste).float().T
    genre = of_genre(attributes, like, of_new)
    log_count = torch.from_numpy(np.log(attributes.count[n_old:])).float()
    assert groups.item is not None
    context_of = _contexts_by_row(groups, n_items)
    pieces, shares, all_nats = [], [], []
    for rows, nats in item_log_probs(larger.members_, groups):
        own = groups.item[rows].astype(np.int64)
        shares.append(np.exp(nats[:, n_old:]).sum(1))
        all_nats.append(nats[np.arange(len(own)), own])
        chosen = np.flatnonzero(first[rows])
        if not len(chosen):
            continue
        ours, context = torch.from_numpy(nats[chosen]), context_of(rows[chosen])
        allowed = torch.where(context[:, n_old:] > 0, -torch.inf, 0.0)
        given = [
            genre.expand_as(allowed),
            log_count.expand_as(allowed),
            content_knn(features, of_new, context),
            linear(features, taste, context),
        ]
        share = ours[:, n_old:].logsumexp(1, keepdim=True)
        scores = {OURS: ours}
        for rival, slope, score in zip(RIVALS, slopes, given, strict=True):
            among = (slope * score + allowed).double().log_softmax(1)
            scores[rival] = torch.cat([ours[:, :n_old], among + share], 1)
        pieces.append((by[rows[chosen]], own[chosen], scores))
    truth = test["item"].isin(new).mean()
    share = {"share_of_new": float(np.concatenate(shares).mean()), "true_share": float(truth)}
    share["all_nats"] = float(np.concatenate(all_nats).mean())
    return [share | row for row in _rows(pieces, n_old)]


def _contexts_by_row(groups: Groups, n_items: int) -> Callable[[np.ndarray], Tensor]:
    group = np.zeros(groups.n_rows, dtype=np.int64)
    group[groups.elements()] = np.repeat(np.arange(len(groups)), groups.stop - groups.start)

    def context_of(rows: np.ndarray) -> Tensor:
        context = torch.zeros(len(rows), n_items)
        for number, row in enumerate(rows):
            held = slice(int(groups.start[group[row]]), int(groups.stop[group[row]]))
            assert groups.item is not None
            context[number, torch.from_numpy(groups.item[held].astype(np.int64))] = 1.0
            context[number, int(groups.item[row])] = 0.0
        return context

    return context_of


def _rows(pieces: list[Any], n_old: int) -> list[dict[str, Any]]:
    by, item = (np.concatenate([piece[at] for piece in pieces]) for at in (0, 1))
    figures: dict[str, dict[str, np.ndarray]] = {}
    for name in (*RIVALS, OURS):
        eta = torch.cat([piece[2][name] for piece in pieces])
        among_new = gain_at(ranks(eta[:, n_old:].numpy(), item - n_old), k=K)
        figures[name] = {
            "nats": eta.numpy()[np.arange(len(item)), item],
            f"ndcg@{K}": among_new,
            f"ndcg@{K}_all": gain_at(ranks(eta.numpy(), item), k=K),
        }
    rows = []
    for name, columns in figures.items():
        row: dict[str, Any] = {"model": name, "n": len(item)}
        for column, numbers in columns.items():
            row[column] = float(numbers.mean())
            if name != OURS:
                ahead = figures[OURS][column] - numbers
                row[f"{column}_ahead"] = list(paired_bootstrap(ahead, by, seed=0))
        rows.append(row)
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """A table of one case."""
    first = rows[0]
    kind = "attention" if first["attention"] else "base alone"
    counts = "{n:,} first purchases of {new_items} new items; {old_items:,} old ones"
    table = Table(title=f"{first['case']}, {kind}, seed {first['seed']}: " + counts.format(**first))
    ndcg = f"NDCG@{K}"
    names = ("model", "nats", "EFA ahead", f"{ndcg} among new", "EFA ahead", f"{ndcg} among all")
    for header in names:
        table.add_column(header, justify="left" if header == "model" else "right")
    for row in rows:
        ahead = [
            "{:+.3f} [{:+.3f}, {:+.3f}]".format(*row[name]) if name in row else ""
            for name in ("nats_ahead", f"ndcg@{K}_ahead")
        ]
        numbers = [f"{row[name]:.4f}" for name in ("nats", f"ndcg@{K}", f"ndcg@{K}_all")]
        table.add_row(row["model"], numbers[0], ahead[0], numbers[1], ahead[1], numbers[2])
    console.print(table)
    if "old_gain" in first:
        gain = "{:+.4f} [{:+.4f}, {:+.4f}]".format(*first["old_gain"])
        console.print(f"attributes add to the nats of old items {gain}")
    shares = "share of new items {share_of_new:.3f}, in the data {true_share:.3f}"
    console.print(shares.format(**first) + f"; CPU s {first['cpu_seconds']}; {first['weights']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=CASES, action="append", help="one case, or several")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, help="where to keep the figures")
    arguments = parser.parse_args()
    cases = arguments.only or CASES
    runs = [(name, False) for name in cases]
    runs += [(name, True) for name in cases if name in WITH_ATTENTION]
    rows = []
    for name, attention in runs:
        for seed in arguments.seeds[:1] if attention else arguments.seeds:
            measured = measure(name, seed=seed, attention=attention)
            show(measured)
            rows += measured
            if arguments.out:
                write_kept(arguments.out, rows)


if __name__ == "__main__":
    main()
