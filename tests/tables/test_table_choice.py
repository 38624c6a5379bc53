"""Choices that a fit makes by validation on its own rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from exfam import MaskedTableRegressor
from exfam.families import StudentT
from exfam.families.mixtures import Mixture
from exfam.tables.data.cells import Cells
from exfam.tables.data.schema import TableSchema
from exfam.tables.estimator import choice
from exfam.tables.estimator.choice import Trial, best_recipe, choose_recipe, fit_table, recipes_of
from exfam.tables.estimator.plan import Recipe, TablePlan
from exfam.tables.estimator.training import objective_of, schedule, train_model
from exfam.tables.networks.assemble import build_masked_table
from exfam.training.steps import fit
from table_model_cases import cells_of, labels
from table_network_cases import (
    ALIKE_FAMILIES,
    alike_cells,
    alike_plan,
    parameters,
)

ORDINAL, FREE = Recipe(True, 0.0), Recipe(False, 0.0)
ALL = [ORDINAL, Recipe(True, 0.5), FREE, Recipe(False, 0.5)]


# What there is to choose


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ALL),
        ({"ordinal": True}, ALL[:2]),
        ({"ordinal": np.False_}, ALL[2:]),
        ({"extra_masking": 0}, [ORDINAL, FREE]),
        ({"ordinal": False, "extra_masking": 0.2}, [Recipe(False, 0.2)]),
    ],
)
def test_recipes_are_what_parameters_leave_open_and_nothing_else(given, expected):
    assert recipes_of(parameters(**given), alike_plan()) == expected


# How it is chosen


def trial(recipe, nats, gain, error):
    return Trial(recipe, nats, gain, error)


@pytest.mark.parametrize(
    ("second", "third", "best"),
    [
        ((-0.9, 0.1, 0.06), (-1.1, -0.1, 0.0), 0),
        ((-0.9, 0.1, 0.04), (-1.1, -0.1, 0.0), 1),
        ((-0.9, 0.1, 0.04), (-0.8, 0.2, 0.09), 2),
        ((-0.9, 0.1, 0.04), (-0.8, 0.2, 0.11), 1),
        ((-1.0, 0.0, 0.0), (-1.0, 0.0, 0.0), 0),
    ],
)
def test_the_first_recipe_stays_unless_another_is_clearly_better(second, third, best):
    rows = [(-1.0, 0.0, 0.0), second, third]
    trials = [trial(recipe, *row) for recipe, row in zip(ALL[:3], rows, strict=True)]
    assert best_recipe(trials) == ALL[best]


def ordered_cells(n, *, seed=0):
    """Ten labels that all follow one hidden number."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n, 1)) + 0.3 * rng.normal(size=(n, 4))
    code = np.stack([np.searchsorted(np.linspace(-1.3, 1.3, 9), c) for c in hidden.T], axis=1)
    return code.astype(float)


TEN = TableSchema(tuple(labels(name, 10, "ordinal") for name in "abcd"))


def ten_plan(value):
    cells = cells_of(TEN, value)
    return TablePlan(TEN, cells, 3, tuple(type(ALIKE_FAMILIES[0])(10) for _ in range(4)))


def test_on_ordered_labels_the_ordinal_recipe_wins():
    plan = ten_plan(ordered_cells(100))
    given = parameters(extra_masking=0.0, max_epochs=15)
    trials = choose_recipe(given, plan, [FREE, ORDINAL])
    assert trials[1].gain > 3 * trials[1].error > 0
    assert trials[1].gain == pytest.approx(trials[1].nats - trials[0].nats)
    assert best_recipe(trials) == ORDINAL
    fitted, result = fit_table(replace_ensemble(given), plan)
    assert fitted.settings.ordinal == (True,) * 3
    assert [each.recipe for each in result] == [ORDINAL, FREE]


def replace_ensemble(given):
    return parameters(**{**vars(given), "ensemble": 3, "max_epochs": 5})


def test_without_a_choice_nothing_is_tried(monkeypatch):
    monkeypatch.setattr(choice, "choose_recipe", None)
    fitted, trials = fit_table(parameters(ordinal=False, extra_masking=0.0), alike_plan())
    assert trials == () and fitted.settings.ordinal == (False,)


def single_member(given, plan, recipes, member, weight):
    """One of several members, started alike and trained by itself."""
    fitted = train_model(
        parameters(**{**vars(given), "max_epochs": 1}),
        plan,
        recipes,
        progress=False,
    )
    settings = fitted.settings
    together, alone = (
        build_masked_table(
            plan.schema,
            replace(settings, ordinal=ordinal),
            families=plan.families,
            cells=plan.cells,
            generator=torch.Generator().manual_seed(given.seed),
        )
        for ordinal in (settings.ordinal, settings.ordinal[member : member + 1])
    )
    own = {name: part[member : member + 1] for name, part in together.state_dict().items()}
    alone.load_state_dict(own)
    fit(
        alone,
        objective=objective_of(given, plan, recipes[member : member + 1]),
        train=alone.rows(plan.cells, weight),
        settings=schedule(given, len(plan.cells)),
        progress=False,
    )
    return alone


def test_held_out_nats_are_those_of_members_fitted_by_themselves(monkeypatch):
    weight = np.random.default_rng(2).gamma(2.0, size=60)
    plan, given = alike_plan(alike_cells(60), weight=weight), parameters(extra_masking=0.0)
    parts = []
    held_out = choice._held_out

    def spy(estimator, small, recipes, *, part, folds):
        result = held_out(estimator, small, recipes, part=part, folds=folds)
        parts.append((small, part, folds, result))
        return result

    monkeypatch.setattr(choice, "_held_out", spy)
    trials = choose_recipe(given, plan, [ORDINAL, FREE])
    small, part, folds, result = parts[0]
    known = small.cells.code[:, 3] >= 0
    assert len(folds) == 5 and sorted(set(part[known])) == folds and set(part[~known]) == {-1}
    members = [recipe for recipe in (ORDINAL, FREE) for _ in folds]
    nats = {ORDINAL: np.zeros(60), FREE: np.zeros(60)}
    for index in (1, 4, 5):
        fold, recipe = index % 5, members[index]
        seen = (part != fold) * small.weight
        model = single_member(given, small, members, index, seen)
        held = small.cells[part == fold]
        distribution = Mixture(model.families[3], model.eta(held, [3])[0])
        nats[recipe][part == fold] = distribution.log_prob(
            torch.from_numpy(held.value[:, 3])
        ).numpy()
        np.testing.assert_allclose(
            result[recipe][0, part[known] == fold], nats[recipe][part == fold], atol=2e-4
        )
    for each in trials:
        assert each.nats == pytest.approx(result[each.recipe][0].mean())
    gain = result[FREE][0] - result[ORDINAL][0]
    assert trials[1].error == pytest.approx(gain.std() / len(gain) ** 0.5)


# How long the training is


@pytest.mark.parametrize(
    ("nats", "tried", "best"),
    [
        ({1: -1.0, 3: -1.1}, [3], 1),
        ({1: -1.0, 3: -0.5, 9: -0.6}, [3, 9], 3),
        ({1: -1.0, 3: -0.5, 9: -0.4}, [3, 9], 9),
    ],
)
def test_longer_trainings_are_tried_as_long_as_they_are_better(nats, tried, best, monkeypatch):
    seen = []

    def result(estimator, small, recipes, *, part, folds):
        seen.extend(recipes)
        extra = {recipe: 0.1 * (recipe.extra_masking == 0.5) for recipe in recipes}
        return {
            recipe: np.full((1, 3), nats[recipe.length] + more) for recipe, more in extra.items()
        }

    monkeypatch.setattr(choice, "_held_out", result)
    trials = choose_recipe(parameters(), alike_plan(), ALL[:2], lengths=(3, 9))
    masked = ALL[1]
    assert seen == [*ALL[:2], *(replace(masked, length=length) for length in tried)]
    assert best_recipe(trials) == replace(masked, length=best)


# Which rows are held out


def held_rows(plan, monkeypatch, **given):
    seen = []

    def spy(estimator, small, recipes, *, part, folds):
        seen.append((small, part, folds))
        return {recipe: np.arange(3.0)[None] for recipe in recipes}

    monkeypatch.setattr(choice, "_held_out", spy)
    trials = choose_recipe(parameters(**given), plan, ALL)
    return trials, seen


def test_labels_are_held_out_however_few_rows_have_one(monkeypatch):
    cells = alike_cells(3000, absent=0.0)
    labeled = np.random.default_rng(0).permutation(3000)[:7]
    hidden = cells.hide([3])
    code, value = hidden.code.copy(), hidden.value.copy()
    code[labeled, 3], value[labeled, 3] = cells.code[labeled, 3], cells.value[labeled, 3]
    plan = alike_plan(Cells(code, hidden.fraction, value))
    monkeypatch.setattr(choice, "MANY_ROWS", 1000)
    _, [(small, part, folds)] = held_rows(plan, monkeypatch)
    assert len(small.cells) == 1000 and folds == [0, 1, 2, 3, 4]
    assert sorted(part[small.cells.code[:, 3] >= 0]) == [0, 0, 1, 1, 2, 3, 4]
    assert (part[small.cells.code[:, 3] < 0] == -1).all()


class TestHeldOutScale:
    """A default regressor is as wide as its errors on rows that it was not fitted to."""

    @staticmethod
    def rows(n, seed):
        random = np.random.default_rng(seed)
        X = random.normal(size=(n, 12))
        return X, X[:, 0] + random.standard_t(5, size=n)

    def test_an_overfitted_distribution_is_widened(self):
        """Many columns of noise: nats on new rows were far below those of a wider one."""
        X, y = self.rows(60, 0)
        new = self.rows(400, 1)
        quick = {"progress": False, "extra_masking": "auto", "max_epochs": 150}
        model = MaskedTableRegressor(ordinal=True, **quick).fit(X, y)
        chosen = next(trial for trial in model.trials_ if trial.recipe == model.recipe_)
        assert chosen.log_scale > 0
        wide = model.log_score(*new)
        model.model_.widen(model.schema_.index("y"), -chosen.log_scale)
        assert wide > model.log_score(*new) + 0.02

    def test_the_default_distribution_has_heavy_tails(self):
        X, y = self.rows(60, 0)
        model = MaskedTableRegressor(max_epochs=2, progress=False).fit(X, y)
        assert model.families_[-1] == StudentT(df=4.0)
        far = model.log_scores(X[:1], [1e4 * y.std()])
        plain = MaskedTableRegressor(max_epochs=2, progress=False, family="gaussian").fit(X, y)
        assert far[0] > -100 > plain.log_scores(X[:1], [1e4 * y.std()])[0]

    def test_every_scale_is_that_of_the_distribution_made_wider(self):
        X, y = self.rows(60, 0)
        model = MaskedTableRegressor(max_epochs=2, progress=False).fit(X, y)
        cells = model._cells(X, y)
        rows = model.model_.rows(cells)
        batch = rows.pad(np.arange(len(X)))
        index = model.schema_.index("y")
        with torch.no_grad():
            before, after = model.model_.log_prob_by_scale(batch, [index], [0.0, 0.7])
        np.testing.assert_allclose(before[0, :, 0], model.log_scores(X, y), atol=1e-5)
        model.model_.widen(index, 0.7)
        np.testing.assert_allclose(after[0, :, 0], model.log_scores(X, y), atol=1e-5)

    def test_distributions_without_a_scale_are_left_alone(self):
        X, y = self.rows(60, 0)
        counts = np.rint(np.abs(y))
        model = MaskedTableRegressor(max_epochs=2, progress=False, family="poisson").fit(X, counts)
        assert {trial.log_scale for trial in model.trials_} == {0.0}
