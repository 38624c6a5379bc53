"""Fits of table models: resumed, refused, and what they choose on their own rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from exfam import MaskedTableRegressor
from exfam.checks import CheckpointError, ExfamError
from exfam.families import StudentT
from exfam.families.mixtures import Mixture
from exfam.tables.data import Cells
from exfam.tables.estimator import choice
from exfam.tables.estimator.plan import Recipe
from exfam.tables.networks.assemble import build_masked_table
from exfam.training.steps import fit
from table_model_cases import drop_cells
from table_network_cases import alike_cells, alike_plan, parameters
from toy_fit import same_bits

RECIPES = [Recipe(True, 0.5), Recipe(False, 0.0)]


def test_a_checkpoint_is_of_all_parameters_but_those_that_change_nothing(tmp_path):
    plan = alike_plan(checkpoint=tmp_path)
    first, again = (
        choice.train_model(parameters(progress=shown), plan, RECIPES[:1], progress=False)[0]
        for shown in (False, True)
    )
    assert same_bits(first, again)
    with pytest.raises(CheckpointError, match=r"response_share is None there and 0\.5 here"):
        choice.train_model(parameters(response_share=0.5), plan, RECIPES[:1], progress=False)
    with pytest.raises(ExfamError, match="`train` must have a target of positive weight"):
        nothing = alike_plan(alike_cells(20).hide([0, 1, 2, 3]))
        choice.train_model(parameters(), nothing, RECIPES, progress=False)


OPEN = {"batch_size": "auto", "max_epochs": "auto"}


@pytest.mark.parametrize("n_rows", [1, 50, 500, 2000, 100_000, 3_000_000])
def test_a_schedule_takes_enough_steps_and_shows_enough_rows(n_rows):
    settings = choice.schedule(parameters(**OPEN), n_rows)
    size = settings.batch_size
    assert 64 <= size <= 1024 and size & (size - 1) == 0
    assert size in (64, 256, 1024) or n_rows / 96 <= size <= n_rows / 4
    steps = settings.max_epochs * -(-n_rows // size)
    # Rounded to whole epochs, at least one.
    assert steps >= min(160, 3.5 * n_rows**0.5) * 0.7
    assert settings.max_epochs * max(n_rows, size) >= 15_000 * 0.7
    assert settings.max_epochs == 1 or steps <= 2 * max(160, 3.5 * n_rows**0.5, 15_000 / 64)


ORDINAL, FREE = Recipe(True, 0.0), Recipe(False, 0.0)
ALL = [ORDINAL, Recipe(True, 0.5), FREE, Recipe(False, 0.5)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ALL),
        ({"ordinal": True}, ALL[:2]),
        ({"ordinal": np.False_}, ALL[2:]),
        ({"ordinal": False, "extra_masking": 0.2}, [Recipe(False, 0.2)]),
    ],
)
def test_recipes_are_what_parameters_leave_open_and_nothing_else(given, expected):
    assert choice.recipes_of(parameters(**given), alike_plan()) == expected


@pytest.mark.parametrize(
    ("second", "third", "best"),
    [
        ((-0.9, 0.1, 0.06), (-1.1, -0.1, 0.0), 0),
        ((-0.9, 0.1, 0.04), (-1.1, -0.1, 0.0), 1),
        ((-0.9, 0.1, 0.04), (-0.8, 0.2, 0.09), 2),
        ((-0.9, 0.1, 0.04), (-0.8, 0.2, 0.11), 1),
    ],
)
def test_the_first_recipe_stays_unless_another_is_clearly_better(second, third, best):
    rows = [(-1.0, 0.0, 0.0), second, third]
    trials = [choice.Trial(recipe, *row) for recipe, row in zip(ALL[:3], rows, strict=True)]
    assert choice.best_recipe(trials) == ALL[best]


def single_member(given, plan, recipes, member, weight):
    """One of several members, started alike and trained by itself."""
    settings = choice.model_settings(given, recipes, response="d")
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
        objective=choice.objective_of(given, plan, recipes[member : member + 1]),
        train=alone.rows(plan.cells, weight),
        settings=choice.schedule(given, len(plan.cells)),
        progress=False,
    )
    return alone


def spied(monkeypatch, answer):
    """What the trials hold out, answered by `answer`."""
    seen = []

    def spy(estimator, small, recipes, *, part, folds):
        result = answer(estimator, small, recipes, part=part, folds=folds)
        seen.append((small, part, folds, result))
        return result

    monkeypatch.setattr(choice, "_held_out", spy)
    return seen


def test_held_out_nats_are_those_of_members_fitted_by_themselves(monkeypatch):
    weight = np.random.default_rng(2).gamma(2.0, size=60)
    plan, given = alike_plan(alike_cells(60), weight=weight), parameters(extra_masking=0.0)
    seen = spied(monkeypatch, choice._held_out)
    trials = choice.choose_recipe(given, plan, [ORDINAL, FREE])
    small, part, folds, result = seen[0]
    known = small.cells.code[:, 3] >= 0
    assert len(folds) == 5 and sorted(set(part[known])) == folds and set(part[~known]) == {-1}
    members = [recipe for recipe in (ORDINAL, FREE) for _ in folds]
    for index in (1, 4, 5):
        fold, recipe = index % 5, members[index]
        model = single_member(given, small, members, index, (part != fold) * small.weight)
        held = small.cells[part == fold]
        distribution = Mixture(model.families[3], model.eta(held, [3])[0])
        nats = distribution.log_prob(torch.from_numpy(held.value[:, 3])).numpy()
        np.testing.assert_allclose(result[recipe][0, part[known] == fold], nats, atol=2e-4)
    for trial in trials:
        assert trial.nats == pytest.approx(result[trial.recipe][0].mean())
    gain = result[FREE][0] - result[ORDINAL][0]
    assert trials[1].error == pytest.approx(gain.std() / len(gain) ** 0.5)


def test_longer_trainings_are_tried_as_long_as_they_are_better(monkeypatch):
    for nats, tried, best in (
        ({1: -1.0, 3: -1.1}, [3], 1),
        ({1: -1.0, 3: -0.5, 9: -0.6}, [3, 9], 3),
        ({1: -1.0, 3: -0.5, 9: -0.4}, [3, 9], 9),
    ):
        seen = spied(
            monkeypatch,
            lambda e, s, recipes, *, nats=nats, **o: {
                recipe: np.full((1, 3), nats[recipe.length]) for recipe in recipes
            },
        )
        trials = choice.choose_recipe(parameters(), alike_plan(), ALL[:1], lengths=(3, 9))
        recipes = [recipe for *_, result in seen for recipe in result]
        assert recipes == [replace(ALL[0], length=length) for length in (1, *tried)]
        assert choice.best_recipe(trials) == replace(ALL[0], length=best)


def held_rows(plan, monkeypatch, **given):
    seen = spied(monkeypatch, lambda e, s, recipes, **o: dict.fromkeys(recipes, np.eye(3)[:1]))
    choice.choose_recipe(parameters(**given), plan, ALL)
    ((small, part, folds, _),) = seen
    return small, part, folds


def test_of_many_rows_one_fifth_is_held_out_and_of_few_labels_every_one(monkeypatch):
    cells = alike_cells(1500, absent=0.0)
    small, part, folds = held_rows(alike_plan(cells), monkeypatch)
    assert folds == [0] and len(small.cells) == 1500 and (part == 0).sum() == 300
    monkeypatch.setattr(choice, "MANY_ROWS", 1000)
    small, part, _ = held_rows(alike_plan(cells), monkeypatch)
    assert len(small.cells) == 1000 and (part == 0).sum() == 200
    labeled = np.isin(np.arange(1500), np.random.default_rng(0).permutation(1500)[:7])
    plan = alike_plan(cells.where(labeled[:, None] | (np.arange(4) != 3)))
    small, part, folds = held_rows(plan, monkeypatch)
    assert len(small.cells) == 1000 and folds == [0, 1, 2, 3, 4]
    assert sorted(part[small.cells.code[:, 3] >= 0]) == [0, 0, 1, 1, 2, 3, 4]
    assert (part[small.cells.code[:, 3] < 0] == -1).all()


@pytest.mark.parametrize(("n_labeled", "ordinal"), [(0, "auto"), (1, "auto"), (9, False)])
def test_without_labels_to_compare_by_or_a_choice_nothing_is_tried(n_labeled, ordinal):
    hidden = drop_cells(alike_cells(30, absent=0.0), share=0.2).hide([3])
    plan = alike_plan(Cells.concatenate([alike_cells(n_labeled, absent=0.0), hidden]))
    given = parameters(ordinal=ordinal, extra_masking=0.0)
    fitted, _, trials = choice.fit_table(given, plan)
    assert trials == () and fitted.network.settings.ordinal == (ordinal == "auto",)


def test_without_a_response_all_cells_of_held_out_rows_are_scored():
    cells = alike_cells(40, absent=0.6)
    plan = alike_plan(Cells.concatenate([cells, cells[:2].hide([0, 1, 2, 3])]), response=None)
    trials = choice.choose_recipe(parameters(extra_masking=0.0), plan, [ORDINAL, FREE])
    assert all(np.isfinite([trial.nats, trial.gain, trial.error]).all() for trial in trials)
    # About those of four labels by chance.
    assert -2.5 < trials[0].nats < -0.5


def noisy_rows(n, seed):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 12))
    return X, X[:, 0] + random.standard_t(5, size=n)


X, Y = noisy_rows(60, 0)


def regressor(y=Y, max_epochs=2, **parameters):
    given = {"base": "none", "max_epochs": max_epochs, "progress": False, **parameters}
    return MaskedTableRegressor(**given).fit(X, y)


def test_an_overfitted_distribution_is_widened():
    """Many columns of noise: nats on new rows were far below those of a wider one."""
    new = noisy_rows(400, 1)
    model = regressor(extra_masking="auto", max_epochs=150, ordinal=True)
    chosen = next(trial for trial in model.trials_ if trial.recipe == model.recipe_)
    wide = model.log_score(*new)
    model.model_.widen(model.schema_.index("y"), -chosen.log_scale)
    assert chosen.log_scale > 0 and wide > model.log_score(*new) + 0.02


def test_every_scale_is_that_of_the_distribution_made_wider():
    model = regressor()
    assert model.families_[-1] == StudentT(df=4.0)
    index = model.schema_.index("y")
    batch = model.model_.rows(model._cells(X, Y)).pad(np.arange(len(X)))
    with torch.no_grad():
        before, after = model.model_.log_prob_by_scale(batch, [index], [0.0, 0.7])
    np.testing.assert_allclose(before[0, :, 0], model.log_scores(X, Y), atol=1e-5)
    model.model_.widen(index, 0.7)
    np.testing.assert_allclose(after[0, :, 0], model.log_scores(X, Y), atol=1e-5)
    # Distributions without a scale are left alone.
    counts = regressor(np.rint(np.abs(Y)), family="poisson")
    assert {trial.log_scale for trial in counts.trials_} == {0.0}
