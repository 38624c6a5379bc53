"""Choices that a fit makes from its parameters and the data: parts, families, support."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from exfam.checks import ExfamError, ExfamWarning, check_choice
from exfam.estimator.rules import Rule
from exfam.families import FAMILIES, Family, PerItem
from exfam.groups import Groups

__all__ = [
    "PARTS",
    "SUPPORT_CHOICES",
    "Families",
    "check_families",
    "check_no_repeats",
    "check_order",
    "check_part_names",
    "choose_encoding",
    "choose_families",
    "choose_family",
    "choose_parts",
    "choose_support",
    "vocabulary_of",
]

PARTS = ("auto", "both", "items", "values")
SUPPORT_CHOICES = ("auto", "hard", "none", "penalty")
_ORDERED = (
    "Name the column to sort by, order='time', or pass order='rows' if the rows, or the elements "
    "of Groups, come in an order that means something."
)


def choose_parts(parts: str, groups: Groups) -> tuple[bool, bool]:
    """Whether items and values are to be modeled; "auto" takes what the data have.

    >>> choose_parts("auto", Groups(start=[0], stop=[1], item=[0]))
    (True, False)
    """
    check_choice("parts", parts, PARTS)
    held = (groups.item is not None, bool(groups.values))
    wanted = {"auto": held, "both": (True, True), "items": (True, False)}.get(parts, (False, True))
    for name, want, have in zip(("item", "value"), wanted, held, strict=True):
        if want and not have:
            raise ExfamError(f"`{name}` must be given for parts={parts!r}, got data without it.")
    if not any(wanted):
        raise ExfamError("`item` or `value` must be given, got data with neither.")
    return wanted


def check_part_names(columns: Mapping[str, Iterable[str]]) -> None:
    """Raise ExfamError for a column that has the item part's name, "item" or "items".

    Scores, probabilities and labels of items have these names.

    >>> check_part_names({"value": ["stars"]})
    """
    for argument, names in columns.items():
        for name in names:
            if name in ("item", "items"):
                raise ExfamError(
                    f"`{argument}` must not have the item part's name, got column {name!r}. "
                    "Rename the column."
                )


def choose_families(family: Any, groups: Groups) -> dict[str, Family]:
    """The family of each value column, from one for all or a dict by column.

    Items that `PerItem` names by their labels are named by their codes, as models know them.

    >>> choose_families("gaussian", Groups(start=[0], stop=[1], values={"stars": [3.0]}))
    {'stars': Gaussian(scale=None)}
    """
    given = family if isinstance(family, Mapping) else dict.fromkeys(groups.values, family)
    for column in groups.values:
        if column not in given:
            raise ExfamError(
                f"`family` must name a family for every value column, got none for {column!r}."
            )
    for column in given:
        if column not in groups.values:
            columns = ", ".join(repr(name) for name in groups.values)
            raise ExfamError(f"`family` must name value columns ({columns}), got {column!r}.")
    labels = groups.vocabulary.get("item")
    chosen = {column: choose_family(given[column]) for column in groups.values}
    if labels is None:
        return chosen
    return {
        column: _by_code(family, labels) if isinstance(family, PerItem) else family
        for column, family in chosen.items()
    }


def _by_code(family: PerItem, labels: np.ndarray) -> PerItem:
    """The family with item codes in place of their labels."""
    codes = {label: code for code, label in enumerate(labels.tolist())}
    for label in family.families:
        if label not in codes:
            raise ExfamError(
                f"`family` must name items of the data, got {label!r} in PerItem. Use labels as in "
                f"the item column, such as {next(iter(codes))!r}."
            )
    without = [label for label in codes if label not in family.families]
    if without and family.default is None:
        raise ExfamError(
            f"`family` must name a family for every item, got none for {without[0]!r} "
            f"({len(without)} of {len(codes)} items). Pass PerItem(families, default=...)."
        )
    return PerItem({codes[label]: own for label, own in family.families.items()}, family.default)


def check_families(family: Any) -> None:
    """Raise ExfamError unless `family` is a family, the name of one, or a dict of such.

    >>> check_families({"stars": "gaussian"})
    """
    for given in family.values() if isinstance(family, Mapping) else [family]:
        choose_family(given)


def choose_family(given: Any) -> Family:
    """A family from an instance or a name.

    Raises ExfamError for a class, an unknown name, or one that needs arguments.

    >>> choose_family("gaussian")
    Gaussian(scale=None)
    """
    if isinstance(given, Family):
        return given
    if isinstance(given, type) and issubclass(given, Family):
        raise ExfamError(
            f"`family` must be an instance or a name, got the class {given.__name__}. "
            f"Pass an instance, {given.__name__}()."
        )
    check_choice("family", given, FAMILIES)
    try:
        return FAMILIES[given]()
    except TypeError as error:
        name = FAMILIES[given].__name__
        raise ExfamError(
            f"`family` must be an instance where it has arguments of its own, got {given!r}. "
            f"Pass exfam.families.{name}(…)."
        ) from error


def choose_support(support: str, seen: Sequence[Groups]) -> str:
    """The support of items: "auto" is hard where no group of `seen` repeats an item.

    Raises ExfamError for "hard" where an item repeats.

    >>> choose_support("auto", [Groups(start=[0], stop=[2], item=[1, 1])])
    'none'
    """
    check_choice("support", support, SUPPORT_CHOICES)
    if support == "hard":
        for groups in seen:
            check_no_repeats(groups)
    if support != "auto":
        return support
    repeats = any(groups.item is None or groups.repeats_items() for groups in seen)
    return "none" if repeats else "hard"


def check_no_repeats(groups: Groups) -> None:
    """Raise ExfamError naming the first item that occurs twice in a group, and its rows."""
    repeat = None if groups.item is None else groups.first_repeat()
    if repeat is None:
        return
    group, item, elements = repeat
    name = group if groups.group_names is None else groups.group_names.tolist()[group]
    labels = groups.vocabulary.get("item")
    label = item if labels is None else labels.tolist()[item]
    rows = elements if groups.source_row is None else groups.source_row[elements]
    raise ExfamError(
        f"`item` must not repeat in a group with support='hard', got {label!r} again in group "
        f"{name!r} at rows {np.asarray(rows).tolist()}. Fit with support='none' or 'penalty' to "
        "allow repeats."
    )


def check_order(groups: Groups, *, direction: str, encoding: str = "none") -> None:
    """Raise ExfamError for sets of elements where a model needs them in order.

    Tied elements of which a causal model needs the order are counted in an ExfamWarning.

    `encoding`: of positions: "auto" needs none, others need an order or positions (default "none")

    >>> check_order(Groups(start=[0], stop=[2]), direction="bidirectional")
    """
    if groups.ordered:
        if direction == "causal":
            _warn_ties(groups)
        return
    if direction == "causal":
        raise ExfamError(
            f"`order` must be given for direction='causal', got none: groups without it are sets. "
            f"{_ORDERED}"
        )
    if encoding not in ("auto", "none") and groups.position is None:
        raise ExfamError(
            "`encoding` must be 'auto' or 'none' without `order` or `position`: groups without "
            f"them are sets, got {encoding!r}. {_ORDERED}"
        )


def _warn_ties(groups: Groups) -> None:
    if groups.tied is None:
        return
    tied = groups.tied[groups.elements()]
    shared = int((tied | np.append(tied[1:], False)).sum())
    if shared:
        warnings.warn(
            f"{shared:,} of {len(tied):,} rows are tied in `order` with another row of their "
            "group: direction='causal' takes them in the order of the rows. Name a finer order, or "
            "pass order='rows' if the order of the rows means something.",
            ExfamWarning,
            stacklevel=2,
        )


def choose_encoding(encoding: str, groups: Groups) -> str:
    """The positional encoding: "auto" is "none" for sets, "relative" for an order or positions.

    Groups whose elements are all tied are sets.

    >>> choose_encoding("auto", Groups(start=[0], stop=[2]))
    'none'
    """
    if encoding != "auto":
        return encoding
    if groups.position is None and groups.tied is not None:
        n_alone = int((groups.stop > groups.start).sum())
        if int(groups.tied[groups.elements()].sum()) == groups.n_elements - n_alone:
            return "none"
    return "relative" if groups.ordered or groups.position is not None else "none"


def vocabulary_of(groups: Groups) -> dict[str, np.ndarray]:
    """The groups' vocabulary; items and categories without labels are named by their codes.

    >>> vocabulary_of(Groups(start=[0], stop=[2], item=[0, 1]))
    {'item': array([0, 1])}
    """
    vocabulary = dict(groups.vocabulary)
    if groups.item is not None:
        vocabulary.setdefault("item", np.arange(groups.n_items))
    for name, codes in (groups.attributes | groups.group_attributes).items():
        if codes.dtype.kind in "iu" and codes.ndim == 1:
            vocabulary.setdefault(name, np.arange(int(codes.max(initial=-1)) + 1))
    return vocabulary


def Families() -> Rule:
    """The rule for a family, the name of one, or a mapping of columns to such."""

    def allows(value: Any) -> bool:
        try:
            check_families(value)
        except ExfamError:
            return False
        return True

    return Rule(
        "a family, the name of one, or a mapping of columns to these",
        allows,
        explain=lambda name, value: check_families(value),
    )
