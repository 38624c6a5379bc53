"""What public methods return: frames, pictures, short views; no class is left out."""

import dataclasses
import inspect
import typing

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from matplotlib.figure import Figure

from every_estimator import case_of
from exfam.checks import ExfamError
from exfam.columns.results import PlottedResult, TabularResult
from exfam.estimator.registry import REGISTRY, class_of
from exfam.groups import Groups
from exfam.language.text_encoders import TextEncoder
from exfam.positions import PositionAttention
from result_cases import GAUSSIAN, MAKERS, all_results

NOTHING = np.array([], object)
EVERY = pytest.mark.parametrize("make", MAKERS)


def subclasses(kind):
    for own in kind.__subclasses__():
        yield own
        yield from subclasses(own)


def test_every_class_of_results_is_tried():
    abstract = {TabularResult, PlottedResult}
    ours = {own for own in subclasses(TabularResult) if own.__module__.startswith("exfam.")}
    assert ours - abstract == {type(result) for result in all_results()}


def returned(annotation):
    """The classes that an annotation names."""
    if inspect.isclass(annotation) and not typing.get_args(annotation):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from returned(argument)


@pytest.mark.parametrize("kind", REGISTRY)
def test_methods_return_results_that_become_frames(kind):
    # Data, and a model.
    others = {Groups, TextEncoder}
    for name, method in inspect.getmembers(class_of(kind), inspect.isfunction):
        if name.startswith("_"):
            continue
        for own in returned(inspect.signature(method).return_annotation):
            if dataclasses.is_dataclass(own) and own.__module__.startswith("exfam."):
                assert own in others or issubclass(own, TabularResult), (name, own)


@EVERY
def test_results_are_columns_of_one_length_in_any_kind_of_frame(make):
    for result in make():
        assert_columns(result)


def assert_columns(result):
    columns = {name: np.asarray(column) for name, column in result.to_dict().items()}
    (n_rows,) = {len(column) for column in columns.values()}
    assert n_rows and all(column.ndim == 1 for column in columns.values())
    frames = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}
    for kind, own in frames.items():
        frame = result.to_frame(kind)
        assert isinstance(frame, own) and frame.shape == (n_rows, len(columns))
        names = frame.column_names if own is pa.Table else frame.columns
        assert list(names) == list(columns)
    like = result.like(pl.DataFrame({"a": [1]}))
    assert isinstance(like.to_frame(), pl.DataFrame) and like.to_dict().keys() == columns.keys()


@EVERY
def test_results_are_shown_short_and_without_tensors(make):
    for result in make():
        assert_shown_short(result)


def assert_shown_short(result):
    lines = repr(result).splitlines()
    assert type(result).__name__ in lines[0] or type(result).__name__ == "Similar"
    assert len(lines) <= 9 and max(map(len, lines)) < 160
    assert "to_frame()" in lines[-1] and "tensor(" not in repr(result)
    assert "<table>" in result._repr_html_()
    if isinstance(result, PositionAttention):  # its matrices are what measures of torch are given
        return
    for field in dataclasses.fields(result):
        assert not isinstance(getattr(result, field.name), torch.Tensor), field.name


@EVERY
def test_results_have_pictures_if_they_say_so(make):
    for result in make():
        last = repr(result).splitlines()[-1]
        if isinstance(result, PlottedResult):
            assert isinstance(result.plot(), Figure) and "plot()" in last
        else:
            assert not hasattr(result, "plot") and "plot()" not in last


def test_methods_give_frames_of_the_kind_of_their_data():
    (frame,) = case_of("efa").given
    model = case_of("efa").fit()
    assert isinstance(model.recommend(frame, k=1).to_frame(), pd.DataFrame)
    assert isinstance(model.recommend(pl.DataFrame(frame), k=1).to_frame(), pl.DataFrame)
    assert isinstance(model.recommend(pa.table(frame), k=1).to_frame(), pa.Table)
    # Without data of its own: the kind that the fit was given.
    assert isinstance(model.complements(frame["movie"].iloc[0], k=1).to_frame(), pd.DataFrame)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("recommendation_bars", {"groups": NOTHING}, "`recommended` must hold at least one item"),
        ("relation_bars", {"items": NOTHING}, "`related` must hold at least one item to draw"),
        ("similar_bars", {"similarity": np.full((1, 2), np.nan)}, "`similar` must hold at least"),
        ("contribution_bars", {"groups": NOTHING, "items": NOTHING}, "`explained` must hold at le"),
        ("explanation_bars", {"contributions": None}, "`explained` must be of a model with a base"),
        ("sensing_bars", {"reduction": np.full(3, np.nan)}, "`sensing` must have at least one mis"),
        ("interval_dots", {"mixture": GAUSSIAN[:0], "rows": np.zeros(0, int)}, "one distribution"),
    ],
)
def test_nothing_cannot_be_drawn(name, change, message):
    drawn = [r for r in all_results() if isinstance(r, PlottedResult) and r.picture == name]
    with pytest.raises(ExfamError, match=message):
        dataclasses.replace(drawn[0], **change).plot()
