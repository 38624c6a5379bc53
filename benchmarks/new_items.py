"""Items that nobody has had yet: nats and ranks of their first purchases, beside simple rivals.

    python benchmarks/new_items.py                          # a quarter of an hour of one core
    python benchmarks/new_items.py --only movielens-random
    python benchmarks/new_items.py --out benchmarks/results/new_items.json

MovieLens 100K (users; year and genres of movies) and Online Retail (receipts; words and price of
articles), with a fifth of the items held out at random; of MovieLens also those that first occur in
the last fifth of the time. Training has neither these items nor the test groups. Every model then
predicts each item of a test group from the others over the whole catalog, new items included; what
counts are the first ten times that a new item occurs in the test groups. Rivals score new items
alone: among the others all rivals have the probabilities of the model's own base. Each rival has a
weight of its score and a share of the probability for new items, both chosen as the model's own
numbers are, by a fifth of the old items at a time that are hidden from the base, in validation
groups. Nothing is chosen by test groups.
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
from exfam.efa.attributes.likeness import CountLine
from exfam.efa.gate import ItemOutputs
from exfam.groups import Groups
from exfam.scores.metrics import gain_at, paired_bootstrap, ranks

DATA = Path(os.environ.get("EXFAM_DATA", "data"))
GENRES = [f"genre {number}" for number in range(1, 19)]
FIRST, K = 10, 10
N_RECEIPTS, LEAST_SOLD, LEAST_WITH_WORD = 3_000, 40, 20
SLOPES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
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


DATA_SETS: dict[str, Callable[[], Case]] = {"movielens": movielens, "online-retail": online_retail}
# No article that is sold often first occurs in the last fifth of the time.
CASES = ["movielens-random", "movielens-time", "online-retail-random"]


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


# What each rival says of new items, given contexts.
Score = Callable[[Any, np.ndarray, Tensor], Tensor]


def of_genre(attributes: Any, new: np.ndarray, context: Tensor) -> Tensor:
    """The mean log count of old items of the same categories, the mean over these."""
    like = attributes.sources.copy()
    like[new] = False
    plain = attributes.features > 0
    log_count = np.log(attributes.count + 0.5)
    of_category = (plain[like] * log_count[like, None]).sum(0) / np.maximum(plain[like].sum(0), 1)
    has = plain[new]
    level = (has @ of_category) / np.maximum(has.sum(1), 1)
    level[has.sum(1) == 0] = log_count[like].mean()
    popular = torch.from_numpy(level).float().expand(len(context), -1)
    return popular


def content_knn(attributes: Any, new: np.ndarray, context: Tensor) -> Tensor:
    """The mean cosine of an item's features with the ten nearest items of the context."""
    features = torch.from_numpy(attributes.features).float()
    unit = torch.nn.functional.normalize(features, dim=1)
    cosine = unit @ unit[torch.from_numpy(new)].T
    out = []
    for row in context:
        held = cosine[row.nonzero()[:, 0]]
        nearest = held.topk(min(10, len(held)), dim=0).values if len(held) else held[:0]
        out.append(nearest.mean(0) if len(held) else torch.zeros(len(new)))
    return torch.stack(out)


class Linear:
    """log p(j | context) = x_j a + x_j W mean(x of the context), fitted to old items by softmax."""

    def __init__(self, train: Groups, attributes: Any, *, seed: int) -> None:
        features = torch.from_numpy(attributes.features).float()
        self.features = torch.cat([features, torch.ones(len(features), 1)], 1)
        n, generator = self.features.shape[1], torch.Generator().manual_seed(seed)
        self.weight = torch.zeros(n, n, requires_grad=True)
        optimizer = torch.optim.Adam([self.weight], lr=0.02, weight_decay=1e-4)
        assert train.item is not None
        item = torch.from_numpy(train.item.astype(np.int64))
        for _ in range(6):
            for group in torch.randperm(len(train), generator=generator).tolist():
                own = item[int(train.start[group]) : int(train.stop[group])]
                if len(own) < 2:
                    continue
                held = self.features[own]
                profile = (held.sum(0) - held) / (len(own) - 1)
                eta = profile @ self.weight @ self.features.T
                loss = torch.nn.functional.cross_entropy(eta, own)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    def __call__(self, attributes: Any, new: np.ndarray, context: Tensor) -> Tensor:
        features = torch.from_numpy(attributes.features).float()
        features = torch.cat([features, torch.ones(len(features), 1)], 1)
        profile = context @ features / context.sum(1, keepdim=True).clamp_min(1)
        with torch.no_grad():
            return profile @ self.weight @ features[torch.from_numpy(new)].T


def popularity(attributes: Any, new: np.ndarray, context: Tensor) -> Tensor:
    """Log counts by ridge regression on the features."""
    like = attributes.sources.copy()
    like[new] = False
    line = CountLine.of(attributes.features[like], np.log(attributes.count[like] + 0.5))
    level = torch.from_numpy(line.at(attributes.features[new])).float()
    return level.expand(len(context), -1)


@dataclass(frozen=True)
class Weighed:
    """Weight of a rival's score and the level of new items."""

    slope: float
    shift: float


def contexts(outputs: ItemOutputs, n_items: int) -> Tensor:
    """Which items are in the context of each target: those that hard support excludes."""
    return torch.isinf(outputs.support[:, :n_items]).float()


def scored(outputs: ItemOutputs, new: np.ndarray, score: Tensor) -> Tensor:
    """Log-probabilities by the base among old items, beside a rival's among new ones."""
    is_new = torch.zeros(outputs.base.shape[1], dtype=torch.bool)
    is_new[torch.from_numpy(new)] = True
    eta = (outputs.base + outputs.support).masked_fill(is_new, -torch.inf).log_softmax(1)
    eta[:, torch.from_numpy(new)] = (score + outputs.support[:, is_new]).log_softmax(1)
    return eta


def weigh_rival(model: EFA, validation: Groups, score: Score) -> Weighed:
    """By hidden old items, as the model weighs its own."""
    attributes, member = model.item_attributes_, model.members_[0]
    part: Any = member.item_part
    found = (-np.inf, Weighed(0.0, 0.0))
    parts = weigh_new._parts(part.base, attributes, validation, seed=0)
    outputs = [weigh_new.by_base(member, some, attributes) for some in parts]
    given = [
        score(attributes, some.hidden, contexts(of, len(some.like)))
        for some, of in zip(parts, outputs, strict=True)
    ]
    for slope in SLOPES:
        nats = np.zeros(len(weigh_new._SHIFTS))
        for some, of, own in zip(parts, outputs, given, strict=True):
            eta = scored(of, some.hidden, slope * own)
            nats += weigh_new.log_probs_by_shift(eta, of.item, some.hidden).sum(0)
        best = int(np.argmax(nats))
        shift = float(weigh_new._SHIFTS[best])
        if nats[best] > found[0]:
            found = (float(nats[best]), Weighed(slope, shift))
    return found[1]


def test_outputs(model: EFA, groups: Groups) -> list[tuple[np.ndarray, ItemOutputs]]:
    """The base's outputs at all targets, some groups at a time, with their rows."""
    member = model.members_[0]
    part: Any = member.item_part
    codes = torch.arange(part.n_items)
    out = []
    support: Any = member.support
    for number in range(len(groups)):
        batch = groups.pad(np.array([number]))
        where = batch.target.nonzero(as_tuple=True)
        with torch.no_grad():
            zeros = torch.zeros(*batch.present.shape, part.n_items)
            added = support(zeros, batch, member.direction)[where]
            base = part.base.outputs(batch, where, codes)
        rows = batch.element[where].numpy()
        assert batch.item is not None
        out.append((rows, ItemOutputs(base, base, added, batch.item[where].long())))
    return out


def rank_among_new(eta: Tensor, item: Tensor, new: np.ndarray) -> np.ndarray:
    """Ranks of new targets' items among the new ones."""
    column = torch.full((eta.shape[1],), -1)
    column[torch.from_numpy(new)] = torch.arange(len(new))
    return ranks(eta[:, torch.from_numpy(new)].numpy(), column[item].numpy())


def first_times(item: np.ndarray, is_new: np.ndarray) -> np.ndarray:
    """Which elements are among the first ten of their new item."""
    number = pd.Series(item).groupby(item).cumcount().to_numpy()
    return is_new & (number < FIRST)


def measure(name: str, *, seed: int, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Figures of all models on one data set and split."""
    data_set, _, how = name.rpartition("-")
    case = DATA_SETS[data_set]()
    train, test, new = split_of(case, how, seed)
    table = case.attributes
    held_out = np.random.default_rng([seed, 4]).permutation(np.sort(train["group"].unique()))
    is_held_out = train["group"].isin(held_out[: len(held_out) // 10])
    validation = train[is_held_out]
    train = train[~is_held_out]
    validation = validation[validation["item"].isin(set(train["item"].tolist()))]
    begin = time.process_time()
    columns = {"group": "group", "item": "item", "progress": False, "support": "hard"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = EFA(**columns, seed=seed, **options).fit(train, validation=validation)
        seconds_plain = time.process_time() - begin
        is_old = table["item"].isin(set(train["item"].tolist()))
        model = EFA(**columns, seed=seed, **options)
        model.fit(train, validation=validation, item_attributes=table[is_old])
        seconds = time.process_time() - begin - seconds_plain
        larger = model.with_items(table[table["item"].isin(new)])
    test = test[test["item"].isin(new | set(train["item"].tolist()))]
    old_test = test[~test["item"].isin(new)]
    before, after = (m.log_prob_parts(old_test)["item"] for m in (plain, model))
    facts = {
        "case": name,
        "train_groups": int(train["group"].nunique()),
        "train_elements": len(train),
        "old_items": int(is_old.sum()),
        "new_items": len(new),
        "features": model.item_attributes_.features.shape[1],
        "old_nats_without_attributes": float(before.mean()),
        "old_nats": float(after.mean()),
        "old_gain": list(paired_bootstrap(after - before, _codes(old_test["group"]), seed=0)),
        "weights": str(model.item_attributes_.weights),
        "cpu_seconds": [round(seconds_plain, 1), round(seconds, 1)],
    }
    answers = answer(model, larger, (train, validation, test), seed=seed)
    return [facts | row for row in rows_of(answers, test, new)]


def _codes(labels: pd.Series) -> np.ndarray:
    return np.unique(labels.to_numpy(), return_inverse=True)[1]


def answer(
    model: EFA, larger: EFA, data: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame], *, seed: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of each model, log-probabilities of all test rows, and ranks among new items.

    `data`: training, validation and test rows
    """
    train, validation, test = data
    inputs = larger._inputs(test)
    groups, n_old = inputs.groups, len(model.vocabulary_["item"])
    n_items = len(larger.vocabulary_["item"])
    new = np.arange(n_old, n_items)
    attributes: Any = larger.item_attributes_
    trained, held_out = (model._inputs(rows).groups for rows in (train, validation))
    rivals: dict[str, Score] = {
        "popularity of category": of_genre,
        "popularity by ridge": popularity,
        "content kNN": content_knn,
        "linear on features": Linear(trained, model.item_attributes_, seed=seed),
    }
    weights = {name: weigh_rival(model, held_out, score) for name, score in rivals.items()}
    flat: dict[str, np.ndarray] = {name: np.full((2, groups.n_rows), np.nan) for name in rivals}
    for rows, outputs in test_outputs(larger, groups):
        held = contexts(outputs, n_items)
        is_new = outputs.item.numpy() >= n_old
        for name, score in rivals.items():
            own = score(attributes, new, held)
            eta = scored(outputs, new, weights[name].slope * own)
            # The share of the probability was chosen for as many new items as were hidden.
            eta[:, n_old:] += weights[name].shift + np.log(5 * len(new) / n_old)
            log_prob = eta.log_softmax(1).gather(1, outputs.item[:, None])[:, 0].numpy()
            flat[name][0, rows] = log_prob
            if is_new.any():
                at = rank_among_new(eta[is_new], outputs.item[is_new], new)
                flat[name][1, rows[is_new]] = at
    out = {name: (inputs.spread(both[0]), inputs.spread(both[1])) for name, both in flat.items()}
    return out | {"EFA with attributes": _of_model(larger, groups, inputs, n_old)}


def _of_model(
    larger: EFA, groups: Groups, inputs: Any, n_old: int
) -> tuple[np.ndarray, np.ndarray]:
    from exfam.estimator.evaluate import item_probabilities

    flat = np.full((2, groups.n_rows), np.nan)
    new = np.arange(n_old, len(larger.vocabulary_["item"]))
    assert groups.item is not None
    for rows, chance in item_probabilities(larger.members_, groups):
        item = groups.item[rows].astype(np.int64)
        flat[0, rows] = np.log(np.maximum(chance[np.arange(len(item)), item], 1e-300))
        is_new = item >= n_old
        if is_new.any():
            eta, own = torch.from_numpy(chance[is_new]), torch.from_numpy(item[is_new])
            flat[1, rows[is_new]] = rank_among_new(eta, own, new)
    return inputs.spread(flat[0]), inputs.spread(flat[1])


def rows_of(
    answers: dict[str, tuple[np.ndarray, np.ndarray]], test: pd.DataFrame, new: set
) -> list[dict[str, Any]]:
    """One row a model: nats and NDCG of first purchases, and how far the model is ahead."""
    item, group = test["item"].to_numpy(), _codes(test["group"])
    first = first_times(item, test["item"].isin(new).to_numpy())
    ours = answers["EFA with attributes"]
    by = _codes(test["item"])[first]
    rows = []
    for name, (nats, rank) in answers.items():
        gain = gain_at(rank[first], k=K)
        row = {"model": name, "n": int(first.sum()), "nats": float(nats[first].mean())}
        row |= {f"ndcg@{K}": float(gain.mean()), "all_nats": float(nats.mean())}
        if name != "EFA with attributes":
            ahead = ours[0][first] - nats[first]
            better = gain_at(ours[1][first], k=K) - gain
            row["nats_ahead"] = list(paired_bootstrap(ahead, by, seed=0))
            row["ndcg_ahead"] = list(paired_bootstrap(better, by, seed=0))
            row["all_ahead"] = list(paired_bootstrap(ours[0] - nats, group, seed=0))
        rows.append(row)
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """A table of one case."""
    first = rows[0]
    table = Table(
        title=f"{first['case']}: {first['n']:,} first purchases of {first['new_items']} new items; "
        f"{first['old_items']:,} old ones, {first['train_groups']:,} groups"
    )
    for header in ("model", "nats", f"NDCG@{K} among new", "EFA ahead, nats", "all items, nats"):
        table.add_column(header, justify="left" if header == "model" else "right")
    for row in rows:
        ahead = (
            "{:+.3f} [{:+.3f}, {:+.3f}]".format(*row["nats_ahead"]) if "nats_ahead" in row else ""
        )
        numbers = (f"{row['nats']:.4f}", f"{row[f'ndcg@{K}']:.4f}", ahead, f"{row['all_nats']:.4f}")
        table.add_row(row["model"], *numbers)
    console.print(table)
    gain = "{:+.4f} [{:+.4f}, {:+.4f}]".format(*first["old_gain"])
    console.print(
        f"old items without and with attributes: {first['old_nats_without_attributes']:.4f}, "
        f"{first['old_nats']:.4f} ({gain}); CPU s {first['cpu_seconds']}; {first['weights']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=CASES, action="append", help="one case, or several")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--base-alone", action="store_true", help="with attention='none'")
    parser.add_argument("--out", type=Path, help="where to keep the figures")
    arguments = parser.parse_args()
    options: dict[str, Any] = {"attention": "none"} if arguments.base_alone else {"ensemble": 1}
    rows = []
    for name in arguments.only or CASES:
        measured = measure(name, seed=arguments.seed, options=options)
        show(measured)
        rows += measured
    if arguments.out:
        write_kept(arguments.out, rows, seed=arguments.seed, options=options)


if __name__ == "__main__":
    main()
