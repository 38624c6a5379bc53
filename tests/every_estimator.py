"""One tiny fit of every class of estimator there is, for tests of what holds for all of them."""

import functools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from communities.community_cases import SITES, SPECIES
from estimator_cases import COLUMNS as GROUP_COLUMNS
from estimator_cases import ITEMS_ONLY, ratings
from estimator_cases import TINY as TINY_GROUPS
from events.event_cases import COLUMNS as EVENT_COLUMNS
from events.event_cases import FRAME as EVENTS
from exfam.estimator.registry import REGISTRY as KINDS
from exfam.estimator.registry import class_of
from fields.field_cases import COLUMNS as FIELD_COLUMNS
from fields.field_cases import FULL
from fields.field_cases import TINY as TINY_FIELDS
from tables.table_estimator_cases import FRAME, RESPONSES, SMALL
from words import lstm_cases

_FOLDER = tempfile.TemporaryDirectory()  # gone with the process
RATINGS = ratings()
SENTENCES = lstm_cases.lines(40)
LABELS = np.array([line.split()[0] in ("the", "cat", "dog") for line in SENTENCES]).astype(str)
TRAINING = {"max_epochs": 1, "batch_size": 8, "progress": False}
WINDOWS = {"epochs": 1, "threads": 1, "progress": False, "min_count": 1}
TINY_WORDS = {
    "cbow": WINDOWS,
    "skip-gram": WINDOWS,
    "pmi-factorization": {"min_count": 1},
    "lstm-language-model": {"epochs": 1, "batch_size": 4, "bptt": 5, "progress": False},
}
MASKED = {
    "vocabulary_size": 40, "embed_dim": 8, "n_heads": 2, "n_layers": 1, "feed_forward_dim": 8,
    "length": 16, **TRAINING,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A class, parameters that make it small, and what its fit is given."""

    kind: str
    parameters: dict[str, Any]
    given: tuple[Any, ...]
    also: dict[str, Any] = field(default_factory=dict)

    def make(self, **changes: Any) -> Any:
        """Not fitted."""
        return class_of(self.kind)(**{**self.parameters, **changes})

    def fit(self, **changes: Any) -> Any:
        """Fitted."""
        return self.make(**changes).fit(*self.given, **self.also)


@functools.cache
def text_file() -> Path:
    """The sentences, one a line, in a file."""
    path = Path(_FOLDER.name) / "text.txt"
    path.write_text("\n".join(SENTENCES), encoding="utf-8")
    return path


@functools.cache
def case_of(kind: str) -> Case:
    """Of a class, by the name that saved models have for it."""
    fewer = {"max_epochs": 1} if kind in ("efa", "latent-factor", "field-efa") else {}
    if kind in ITEMS_ONLY:
        return Case(kind, {"group": "user", "item": "movie"}, (RATINGS,))
    if KINDS[kind].reads == "groups":
        return Case(kind, {**GROUP_COLUMNS, **TINY_GROUPS[kind], **fewer}, (RATINGS,))
    if KINDS[kind].reads == "fields":
        return Case(kind, {**FIELD_COLUMNS, **TINY_FIELDS.get(kind, {}), **fewer}, (FULL,))
    if KINDS[kind].reads == "tables":
        response = RESPONSES[kind]
        given = (FRAME,) if response is None else (FRAME, response)
        return Case(kind, {**SMALL, "kinds": {"visits": "count"}, "max_epochs": 1}, given)
    if KINDS[kind].reads == "events":
        return Case(kind, EVENT_COLUMNS, (EVENTS,))
    if KINDS[kind].reads == "communities":
        return Case(kind, {"species": SPECIES}, (SITES,))
    if kind == "masked-language-model":
        return Case(kind, MASKED, (SENTENCES,))
    if KINDS[kind].reads == "text":
        return Case(kind, {"dim": 4, **TINY_WORDS[kind]}, (text_file(),))
    if kind == "positional-sentence-classifier":
        vectors = case_of("skip-gram").fit().vectors_
        return Case(kind, TRAINING, (SENTENCES, LABELS), {"vectors": vectors})
    encoder = case_of("masked-language-model").fit()
    targets = LABELS if kind == "sentence-classifier" else np.arange(len(SENTENCES)) % 3.0
    return Case(kind, TRAINING, (SENTENCES, targets), {"encoder": encoder})


def tensors_of(estimator: Any) -> dict[str, np.ndarray]:
    """All that was learned, as arrays."""
    if hasattr(estimator, "community_"):
        return estimator.community_.arrays()
    if hasattr(estimator, "event_model_"):
        return estimator.event_model_.arrays()
    if not getattr(estimator, "members_", None):  # words have vectors alone
        return {"vectors": estimator.vectors_.center, "others": estimator.vectors_.context}
    return {
        f"{number}.{name}": np.asarray(tensor)
        for number, member in enumerate(estimator.members_)
        for name, tensor in member.state_dict().items()
    }
