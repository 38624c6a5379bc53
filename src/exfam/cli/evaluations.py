"""`exfam evaluate recommendations`: models beside each other on hidden items."""

from collections.abc import Iterator
from typing import Any

from exfam.checks import ExfamError, check_positive
from exfam.cli.kinds import number, text, words
from exfam.cli.options import DATA, Form, Option, choice, count

_OF_RANKINGS = """Items of each group are hidden, the last ones of models with an order, a fifth
otherwise, and looked for among those that each model recommends to what is left. FILE should hold
groups that no model was fitted to.

A row per model. Means over groups: recall, the share of hidden items that is found; precision, the
share of recommended items that was hidden; hit, whether any was found; ndcg and map, which count
what comes first for more; mrr, 1 over the rank of the first; nats, the log-probability of hidden
items. Of all groups: coverage, the share of the catalog that is recommended to any; popularity, the
mean share of groups that have a recommended item, and of a hidden one; novelty, in bits.

With --train, the data that MODEL was fitted to, Popularity, ItemKNN and EASE are fitted to them and
judged as well. Lines on stderr have the first model's lead over each other one in ndcg, with an
interval of 95 % over groups; `exfam fit --model ease` makes a model of one that is ahead."""
# Items up to which EASE is a rival that takes seconds.
_MOST_ITEMS_OF_EASE = 5_000


def _evaluate(chosen: Any) -> Any:
    from exfam.cli.output import note
    from exfam.cli.sorts import sort_of
    from exfam.cli.sources import open_model
    from exfam.scores.recommenders import evaluate_recommenders

    for name in ("k", "n"):
        if (value := getattr(chosen, name)) is not None:
            check_positive(f"-{name}" if name == "k" else f"--{name}", value)
    model = open_model(chosen)
    sort = sort_of(model, "recommend", chosen)
    groups, description = sort.read(model, chosen, file=chosen.file)
    note(*filter(None, [description]))
    models, train = {chosen.model: model}, None
    models |= dict(_others(chosen))
    if chosen.train is not None:
        train, description = sort.read(model, chosen, file=chosen.train)
        note(*filter(None, [description]))
        models |= dict(_rivals(model, train))
    hide = chosen.hide or ("some" if model.order is None and not groups.ordered else "last")
    scores = evaluate_recommenders(
        models, groups, hide=hide, n=chosen.n, share=chosen.share, k=chosen.k, train=train,
        seed=chosen.seed,
    )  # fmt: skip
    note(scores.headline(), *_leads(scores, chosen.model, measure=f"ndcg@{chosen.k}"))
    return scores.to_dict()


def _others(chosen: Any) -> Iterator[tuple[str, Any]]:
    """Saved models that are named beside the first."""
    from exfam.estimator.saving import load

    for path in chosen.beside or []:
        other = load(path)
        if not hasattr(other, "recommend"):
            raise ExfamError(
                f"`--beside` must name models that recommend items, got {type(other).__name__} in "
                f"{path}."
            )
        yield path, other


def _rivals(model: Any, train: Any) -> Iterator[tuple[str, Any]]:
    """Recommenders that count, fitted to the same data."""
    from exfam.efa.rankers import EASE, ItemKNN, Popularity

    support = "hard" if model.support_ == "hard" else "none"
    names = ("group", "order", "item", "direction", "unknown")
    shared = {name: getattr(model, name) for name in names} | {"support": support}
    kinds = [Popularity, ItemKNN, *([EASE] if train.n_items <= _MOST_ITEMS_OF_EASE else [])]
    for kind in kinds:
        if not isinstance(model, kind):
            yield kind.__name__, kind(**shared).fit(train)


def _leads(scores: Any, first: str, *, measure: str) -> Iterator[str]:
    for other in scores.by_group:
        if other != first:
            mean, low, high = scores.difference(first, other)[measure]
            sure = "" if low > 0 or high < 0 else ": no difference that these groups could show"
            word = "ahead of" if mean >= 0 else "behind"
            low, high = (low, high) if mean >= 0 else (-high, -low)
            yield (
                f"{first} is {word} {other} by {abs(mean):.4f} [{low:.4f}, {high:.4f}] in "
                f"{measure}{sure}"
            )


EVALUATE = Form(
    "evaluate recommendations",
    "Hide items of groups, and look for them among those recommended",
    [
        *DATA,
        choice(
            "hide",
            ("last", "some"),
            "the last items of each group, or some at random (default last where there is an "
            "order, else some)",
        ),
        count("n", "how many items of each group are hidden (default 1 of the last)"),
        Option("share", number, "the share that is hidden, of some (default 0.2)"),
        count("k", "items that are recommended", default=10, short="-k"),
        Option(
            "train", text, "what MODEL was fitted to: fits recommenders that count beside it",
            metavar="FILE",
        ),
        Option("beside", words, "another saved model to compare with", metavar="MODEL", many=True),
        count("seed", "fixes which items are hidden", default=0),
    ],
    answers=_evaluate,
    example="exfam evaluate recommendations model ratings.csv -k 3\n"
    "exfam evaluate recommendations model ratings.csv --hide some --train ratings.csv --format csv",
    notes=_OF_RANKINGS,
)  # fmt: skip
