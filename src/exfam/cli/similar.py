"""`exfam similar`: the items that stand for others, by a saved model."""

from typing import Any

from exfam.checks import ExfamError
from exfam.cli.errors import reworded
from exfam.cli.kinds import words
from exfam.cli.options import MODEL, Form, Option, count

_OF_SIMILAR = """Items that can replace each other: those that the same other items call for, by
cosines of what the model has of them, the most similar first. It needs no data, and takes models of
groups that know items apart: EFA, LatentFactor, EASE, ItemKNN. Items are named as in the data."""


def _similar(chosen: Any) -> Any:
    from exfam.cli.sources import open_model

    model = open_model(chosen)
    if not hasattr(model, "similar_items"):
        raise ExfamError(
            f"`MODEL` must be of groups with items, got {type(model).__name__}. Of words use "
            "`exfam neighbors`."
        )
    labels = {str(label): label for label in model.vocabulary_.get("item", ())}
    items = [labels.get(name, name) for name in chosen.items]
    with reworded({"`item`": "`ITEM`"}):
        return model.similar_items(items, k=chosen.k).to_dict()


SIMILAR = Form(
    "similar",
    "The items most similar to items, by a saved model",
    [
        MODEL,
        Option(
            "items",
            words,
            "whose similar items to find; one or several",
            metavar="ITEM...",
            positional=True,
            required=True,
            many=True,
        ),
        count("k", "of each item", default=10, short="-k"),
    ],
    answers=_similar,
    example="exfam similar model Alien Brazil -k 3\n"
    "exfam similar model Alien --format csv -o alike.csv",
    notes=_OF_SIMILAR,
)
