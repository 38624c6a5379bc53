"""Laws of tails: as heavy as single values are wild, and of the variance that others leave."""

import copy

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from numpy.testing import assert_allclose

from exfam.families import StudentT
from exfam.fields import FieldGaussian
from exfam.fields.base.choose import (
    FEWEST_TAILS_OF_CENSORED,
    TAILS,
    choose_ahead,
    choose_rest,
    choose_tails,
    with_memories,
)
from exfam.fields.base.conditionals import (
    OfMatrix,
    given_all,
    given_near,
    nearest_columns,
    with_tails,
)
from exfam.fields.base.courses import CHOICES
from exfam.fields.base.limits import log_mass_below
from exfam.fields.base.memories import remembered
from exfam.fields.base.part import FieldBasePart
from exfam.fields.base.trials import (
    FEWEST_DEGREES_OF_CENSORED,
    Settings,
    Trials,
    WholeRows,
    in_gaps,
    prior_of,
)
from exfam.fields.local.local_fit import fit_local_base
from exfam.fields.local.local_part import LocalBasePart
from exfam.fields.networks.assemble import FieldShape
from exfam.simulators import simulate_field
from fields.field_cases import COLUMNS
from fields.test_field_base import field_maps, random_covariance, rows
from fields.test_field_local import maps_of

FIELD = field_maps(n_maps=300, n_lags=0)


def with_slips(maps, *, df, seed=0):
    """The maps with an error of each value, of the same variance whatever its degrees."""
    random, size = np.random.default_rng(seed), maps.panel.values.shape
    error = random.standard_t(df, size=size) * ((df - 2) / df) ** 0.5
    return maps.with_values(maps.panel.values + torch.from_numpy(error))


def chosen(maps):
    trials = Trials(WholeRows(maps, prior_of(maps, CHOICES[0])), CHOICES[0])
    return choose_tails(trials, choose_rest(trials, [8]))


def test_other_tails_leave_mean_and_variance():
    eta = torch.randn(9, 3, generator=torch.Generator().manual_seed(0)).double()
    found, family = with_tails(eta, 4.5), StudentT()
    assert_allclose(family.variance(found), family.variance(eta))
    assert_allclose(found[:, 0], eta[:, 0])
    assert_allclose(family.parameters(found)[2], 4.5)


def test_what_is_below_a_limit_has_the_mass_of_these_tails():
    covariance, (values, shown) = random_covariance(5), rows(30, 5, missing=0.3)
    given = given_all(values, shown, covariance, torch.arange(5))
    found = log_mass_below(torch.full_like(given.mean, 0.3), given, 7.0, 9.0).exp()
    wanted = StudentT().cdf(torch.full_like(found, 0.3), given.student_t(7.0, 9.0))
    assert_allclose(found, wanted, atol=2e-3)


def test_tails_are_chosen_where_single_values_are_wild():
    assert chosen(with_slips(FIELD, df=3)).tails in TAILS[-4:]
    assert chosen(with_slips(FIELD, df=1e6)).tails in (None, *TAILS[:2])
    # Of a map that is wild as a whole, the values around say so.
    wild = torch.from_numpy(np.random.default_rng(1).standard_t(3, size=(300, 1))).abs()
    assert chosen(FIELD.with_values(FIELD.panel.values * wild)).tails in (None, *TAILS[:4])
    assert chosen(with_slips(FIELD, df=3).take(torch.arange(19))).tails is None


def test_many_sites_have_tails_too():
    assert fit_local_base(with_slips(maps_of(n_times=160, n_lags=0), df=3)).settings.tails in TAILS


def test_amounts_with_zeros_keep_a_variance():
    maps = with_slips(field_maps(n_maps=40, n_lags=0), df=3)
    values = maps.panel.values.clamp_min(0)
    panel = maps.panel._replace(values=values, censored=values == 0)
    settings = chosen(maps._replace(panel=panel))
    assert settings.df >= FEWEST_DEGREES_OF_CENSORED
    assert settings.tails is None or settings.tails >= FEWEST_TAILS_OF_CENSORED


def test_values_after_a_fit_spread_as_those_of_its_last_block_do():
    n_times = len(FIELD.panel.time)
    grows = 1 + (torch.arange(n_times) >= 0.8 * n_times).double()
    maps = FIELD.with_values(FIELD.panel.values * grows[:, None])
    trials = Trials(WholeRows(maps, prior_of(maps, CHOICES[0])), CHOICES[0])
    settings = choose_rest(trials, [8])
    assert choose_ahead(trials, settings).ahead > 0.2
    few = maps.take(torch.arange(90))
    few = Trials(WholeRows(few, prior_of(few, CHOICES[0])), CHOICES[0])
    assert choose_ahead(few, settings).ahead == 0.0


def test_blocks_say_nothing_of_sites_that_others_hardly_show():
    shown = FIELD.panel.shown.clone()
    shown[:-50, 0] = False
    maps = FIELD._replace(panel=FIELD.panel._replace(shown=shown))
    *_, last = Trials(WholeRows(maps, prior_of(maps, CHOICES[0])), CHOICES[0]).folds
    assert not last.evidence.shown[:, 0].any() and last.evidence.shown[:, 1:].all()


def test_only_later_values_of_known_sites_are_spread_otherwise():
    frame = {
        "day": np.arange(60).repeat(4),
        "site": np.tile(list("abcd"), 60),
        "x": np.tile([0.0, 1.0, 2.0, 4.0], 60),
        "v": np.random.default_rng(0).normal(size=240),
    }
    early = {name: column[:200] for name, column in frame.items()}
    columns = {"time": "day", "site": "site", "coordinates": "x", "value": "v"}
    model = FieldGaussian(**columns, metric="euclidean").fit(early)
    chosen = model.members_[0].value_part.chosen
    plain = [model.predict_dist(frame).sd, model.predict_dist(frame, at=[[3.0]]).sd]
    before = float(chosen[-2])
    for change in (0.5, -0.3):
        chosen[-2] = before + change
        spread, elsewhere = model.predict_dist(frame).sd, model.predict_dist(frame, at=[[3.0]]).sd
        late = np.where(frame["day"] >= 50, np.exp(change), 1.0)
        assert_allclose(spread / plain[0], late, rtol=1e-5)
        assert_allclose(elsewhere, plain[1])


@pytest.mark.parametrize("kind", [FieldBasePart, LocalBasePart])
def test_bases_stored_without_tails_are_loaded(kind):
    shape = FieldShape(
        "v", 3, lags=0, step=1.0, metric="euclidean", center=(0.0, 0.0), spread=(1.0, 1.0), unit=1.0
    )
    part = kind(shape, period=365.25)
    with torch.no_grad():
        part.chosen.fill_(8.0)
    state = copy.deepcopy(part.state_dict())
    part.load_state_dict(state)
    assert part.tails == 8.0
    part.load_state_dict({**state, "chosen": state["chosen"][:-3]})
    assert part.tails == 8.0 and not part.chosen[-3:].any()
    part.load_state_dict({**state, "chosen": state["chosen"][:-4]})
    assert part.tails is None and part.df == 8.0
    part.of_forecasts.fill_(0.5)
    del state["of_forecasts"]
    part.load_state_dict(state)
    assert not part.of_forecasts.any()


def test_a_lone_site_is_not_predicted_from_itself():
    covariance = torch.ones(1, 1).double()
    near = OfMatrix(
        covariance, torch.arange(1), nearest_columns(covariance, torch.arange(1), most=8)
    )
    values = torch.tensor([[-1.0], [2.0]]).double()
    given = given_near(values, torch.ones_like(values, dtype=torch.bool), near, n_used=8)
    assert_allclose(given.mean, 0.0)
    assert_allclose(given.variance, 1.0)


LAGGED = field_maps(n_maps=60, n_lags=1)


def lagged_rows(maps=LAGGED):
    prior = prior_of(maps, CHOICES[0])
    return WholeRows(maps, prior)


def test_values_ahead_are_not_predicted_from_their_own_maps():
    ahead = Trials(lagged_rows(), CHOICES[0]).without_own()
    n = len(LAGGED.sites.terms)
    before = [given.mean for _, given in ahead.given(0.5, 8)]
    for fold in ahead.folds:
        fold.evidence.values[:, :n] += 1.0
    for mean, (_, given) in zip(before, ahead.given(0.5, 8), strict=True):
        assert_allclose(given.mean, mean)
        assert mean.std() > 0.1


def test_sites_that_wander_have_memories_of_their_own():
    steps = torch.randn(60, 12, generator=torch.Generator().manual_seed(0)).double()
    kept = torch.linspace(0.1, 1.0, 12).double()
    values = [steps[0]]
    for step in steps[1:]:
        values.append(kept * values[-1] + step)
    maps = field_maps(n_maps=60, n_lags=1)
    n = len(maps.sites.terms)
    maps = maps.with_values(torch.stack(values)[:, torch.linspace(0, 11, n).long()])
    settings = Settings(CHOICES[0], 0.5, 50.0, 8)
    found = with_memories(settings, Trials(lagged_rows(maps), CHOICES[0]))
    assert found.memories == found.shrinkage > 0
    assert with_memories(settings, Trials(lagged_rows(LAGGED.with_lags(0)), CHOICES[0])) == settings


def test_memories_of_an_exact_covariance_are_its_own():
    kept = torch.tensor([0.2, 0.9]).double()
    now = torch.tensor([[1.0, 0.3], [0.3, 1.0]]).double()
    exact = torch.cat([torch.cat([now, kept[:, None] * now], 1), torch.cat([now * kept, now], 1)])
    many = remembered(exact, torch.eye(4).double(), n_sites=2, n_maps=10**9)
    assert_allclose(many, exact, atol=1e-6)
    few = remembered(exact, torch.eye(4).double(), n_sites=2, n_maps=10)
    assert (few[2:, :2].diagonal() > exact[2:, :2].diagonal()).all()
    assert (torch.linalg.eigvalsh(few) > 0).all()


def test_gaps_hold_out_values_that_are_not_seen():
    settings = Settings(CHOICES[0], 0.5, 30.0, 8)
    gaps = list(in_gaps(lagged_rows(), settings))
    fold, given = gaps[0]
    held = fold.evidence.shown
    assert 0 < held.double().mean() < 0.3
    other = LAGGED.with_values(torch.where(held, LAGGED.panel.values + 9.0, LAGGED.panel.values))
    rows_ = WholeRows(other, prior_of(LAGGED, CHOICES[0]))
    again = next(iter(in_gaps(rows_, settings)))[1]
    assert_allclose(again.mean[held], given.mean[held])
    assert given.mean[held].std() > 0.1


def test_maps_without_values_and_gaps_are_spread_by_settings_of_their_own():
    field = simulate_field(4, 40, season=0.0, seed=0)
    frame = field.frame.to_pandas()
    columns = {"coordinates": ["latitude", "longitude"], "time": "time", "site": "site"}
    model = FieldGaussian(value="value", lags=1, **columns).fit(frame)
    part = model.members_[0].value_part
    last = frame.time == frame.time.max()
    is_first = frame.site == frame.site.iloc[0]
    hidden = frame.assign(value=frame.value.mask(last))
    gap = frame.assign(value=frame.value.mask(is_first))
    part.of_forecasts[-2:] = 0.0
    plain = [model.predict_dist(data).sd for data in (frame, hidden, gap)]
    part.of_forecasts[-2:] = torch.tensor([0.5, 0.2])
    wide = [model.predict_dist(data).sd for data in (frame, hidden, gap)]
    first = frame.time == frame.time.min()
    log = [np.log(w / p) for w, p in zip(wide, plain, strict=True)]
    assert_allclose(log[0][~first], 0.0, atol=1e-6)
    assert_allclose(log[1][last], 0.5, rtol=1e-5)
    assert_allclose(log[2][is_first], 0.2, rtol=1e-5)
    assert_allclose(log[2][~is_first & ~first], 0.0, atol=1e-6)
    model.forecast(frame, steps=1, n=2)


@pytest.mark.parametrize(("n_maps", "lags"), [(2, 0), (2, 1), (3, 0), (4, 1), (6, 1)])
def test_few_maps_are_worth_more_than_means_and_spreads(n_maps, lags):
    """Of means and spreads the common spread, widened by what the means are off by."""
    random, at = np.random.default_rng(1), np.arange(20) / 2
    root = np.linalg.cholesky(np.exp(-np.abs(at[:, None] - at) / 3))
    values = (root @ random.normal(size=(20, n_maps + 40))).T + 2 * random.normal(size=20)
    n, years = values.size, 365.25 * np.arange(n_maps + 40)
    frame = pd.DataFrame(
        {
            "day": np.repeat(years, 20),
            "site": np.tile([f"s{k}" for k in range(20)], n_maps + 40),
            "x": np.tile(at, n_maps + 40),
            "y": np.zeros(n),
            "v": values.ravel(),
        }
    )
    model = FieldGaussian(**COLUMNS, lags=lags).fit(frame[: 20 * n_maps])
    spread = np.sqrt(values[:n_maps].var(0, ddof=1).mean() * (1 + 1 / n_maps))
    usual = scipy.stats.norm(values[:n_maps].mean(0), spread).logpdf(values[n_maps:])
    nats = np.ravel(model.log_prob(frame[20 * (n_maps - lags) :]))[-20 * 40 :]
    assert nats.mean() > usual.mean() + 0.1
