"""Values without items stand where the numbers or times of their order say."""

import datetime

import numpy as np
import pandas as pd
import pytest

import exfam
from exfam import EFA, Groups
from exfam.reading.prepared import prepare

COLUMNS = {
    "group": "child",
    "value": "size",
    "family": "student-t",
    "attention": "none",
    "progress": False,
}


def grown(n_groups=40, *, seed=0, at=(8, 10, 14, 20)):
    """Sizes that rise with age, which is not evenly spaced."""
    draw = np.random.default_rng(seed)
    size = 0.5 * np.array(at) + draw.normal(size=(n_groups, 1))
    size = size + 0.3 * draw.normal(size=(n_groups, len(at)))
    return pd.DataFrame(
        {
            "child": np.repeat(np.arange(n_groups), len(at)),
            "age": np.tile(at, n_groups),
            "size": size.ravel(),
        }
    )


FRAME, NEW = grown(), grown(20, seed=1)


@pytest.fixture(scope="module")
def by_number():
    return EFA(**COLUMNS, order="age").fit(FRAME)


def test_ages_are_where_values_stand(by_number):
    model = by_number
    named = EFA(**COLUMNS, order="age", position="age").fit(FRAME)
    plain = EFA(**COLUMNS).fit(FRAME)
    np.testing.assert_array_equal(model.log_prob(NEW), named.log_prob(NEW))
    assert model.resolved_["position"] == "age"
    assert model.score(NEW) > plain.score(NEW) + 0.3


@pytest.mark.parametrize("options", [
    {"base": "none", "attention": "softmax", "max_epochs": 1},
    {"position": ()},
    {"encoding": "none"},
    {"order": "rows"},
], ids=str)  # fmt: skip
def test_some_models_only_count(options):
    model = EFA(**COLUMNS | {"order": "age", **options}).fit(FRAME)
    assert model.resolved_.get("position") is None
    moved = NEW.assign(age=NEW.age**2)
    np.testing.assert_array_equal(model.log_prob(NEW), model.log_prob(moved))


@pytest.mark.parametrize("write", [
    lambda age: f"visit {age}",
    lambda age: f"{age:02d}:30",
    lambda age: datetime.date(2024, 1, age),
    lambda age: datetime.time(age, 30),
], ids=["name", "time in text", "date", "time"])  # fmt: skip
def test_orders_of_any_kind_are_positions(by_number, write, tmp_path):
    one, other = (frame.assign(age=frame.age.map(write)) for frame in (FRAME, NEW))
    model = EFA(**COLUMNS, order="age").fit(one)
    assert model.score(other) == pytest.approx(by_number.score(NEW), abs=0.02)
    other.to_csv(tmp_path / "new.csv", index=False)
    if not isinstance(other.age[0], datetime.time):  # which a file has as text
        np.testing.assert_allclose(model.log_prob(tmp_path / "new.csv"), model.log_prob(other))


def test_folders_that_were_prepared_without_positions_are_fitted_and_predicted(tmp_path):
    prepare(FRAME, tmp_path / "old", group="child", order="age", value="size")
    model = EFA(**COLUMNS, order="age").fit(tmp_path / "old")
    assert "position" not in model.resolved_
    by_frame = model.log_prob(NEW)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(exfam.load(tmp_path / "model").log_prob(NEW), by_frame)
    prepare(NEW, tmp_path / "new", group="child", order="age", value="size")
    np.testing.assert_array_equal(model.log_prob(tmp_path / "new"), by_frame)


def test_groups_without_positions_are_refused_by_a_model_that_has_some(by_number):
    n = len(NEW)
    bare = Groups(start=np.arange(0, n, 4), stop=np.arange(4, n + 1, 4), ordered=True,
                  values={"size": NEW["size"].to_numpy()})  # fmt: skip
    with pytest.raises(exfam.checks.ExfamError, match="position"):
        by_number.log_prob(bare)
