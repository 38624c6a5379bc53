"""Laws of covariates: units, uselessness, new sites by altitude, forecasts that are used."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from exfam import FieldEFA, FieldGaussian, FieldKriging, load
from exfam.checks import DataError, ExfamError
from exfam.fields import field_base
from exfam.fields.base.effects import EffectChoice, site_effects
from exfam.fields.base.levels import SiteNumber
from exfam.fields.data import read_field
from exfam.fields.local.local_part import LocalBasePart

COLUMNS = {
    "time": "day",
    "site": "site",
    "coordinates": ["x", "y"],
    "value": "v",
    "metric": "euclidean",
}
EVERY = ["altitude", "forecast"]


def valleys(*, n_days=24, n_sites=16, seed=0):
    """Levels fall with the altitude, which no plane knows; forecasts are half right."""
    random = np.random.default_rng(seed)
    places, altitude = random.uniform(0, 10, (n_sites, 2)), random.uniform(0, 2000, n_sites)
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
    root = np.linalg.cholesky(np.exp(-apart / 3) + 1e-9 * np.eye(n_sites))
    frames = []
    for day in range(n_days):
        weather, error = root @ random.normal(size=n_sites), random.normal(size=n_sites)
        value = 20 - altitude / 100 + weather + 2 * error
        frame = pd.DataFrame(places, columns=["x", "y"])
        frame["day"], frame["site"] = day, [f"s{k:02d}" for k in range(n_sites)]
        frame["v"], frame["altitude"], frame["forecast"] = value, altitude, 3 * error + 5
        frame["useless"] = random.normal(size=n_sites)
        frames.append(frame)
    frame = pd.concat(frames, ignore_index=True)
    frame.loc[(random.random(len(frame)) < 0.4) & (frame.day % 6 == 5), "v"] = np.nan
    return frame


FRAME = valleys()
SEEN = FRAME.v.notna().to_numpy()


def model(covariates, **more):
    return FieldGaussian(**COLUMNS, covariates=covariates, **more)


@pytest.fixture(scope="module")
def fitted():
    return model(EVERY, lags=1).fit(FRAME)


@pytest.fixture(scope="module")
def plain():
    return model(None).fit(FRAME)


# Of fewer days and sites, where how much covariates say does not matter.
SMALL = valleys(n_days=16, n_sites=8)
SEEN_SMALL = SMALL.v.notna().to_numpy()


@pytest.fixture(scope="module")
def small():
    return model(EVERY).fit(SMALL)


def test_a_forecast_of_values_is_used(plain):
    forecast = model("forecast").fit(FRAME)
    assert forecast.score(FRAME) > plain.score(FRAME) + 0.5
    effects = forecast.members_[0].value_part.normal.effects
    in_unit = effects * forecast.family_.scale / forecast.shape_.covariate_scale[0]
    assert_allclose(in_unit, 2 / 3, atol=0.05)


def test_new_sites_are_better_known_by_their_altitude():
    new = FRAME.site.isin(["s03", "s08", "s11", "s14"])
    known, hidden = FRAME[~new], FRAME.assign(v=FRAME.v.where(~new))
    truth, errors, nats = FRAME.v.to_numpy(), [], []
    for covariates in (None, "altitude"):
        found = model(covariates).fit(known).predict_dist(hidden)
        there = SEEN & new.to_numpy()
        errors.append(np.abs(found.mean - truth)[there].mean())
        nats.append(found.log_prob(truth)[there].mean())
    assert errors[1] < 0.6 * errors[0] and nats[1] > nats[0] + 0.3


@pytest.mark.parametrize("name", ["useless", "constant"])
def test_a_useless_covariate_hardly_moves_anything(name, plain):
    frame = FRAME.assign(constant=3.0)
    other = model(name).fit(frame)
    far = np.abs(other.predict(frame) - plain.predict(frame))
    assert far.max() < 0.15 * frame.v.std() and abs(other.score(frame) - plain.score(frame)) < 0.03


def test_a_useless_number_of_sites_hardly_moves_new_ones(plain):
    random = np.random.default_rng(5)
    number = dict(zip(FRAME.site.unique(), random.normal(size=16), strict=True))
    frame = FRAME.assign(number=FRAME.site.map(number))
    at = np.array([[3.0, 4.0], [6.0, 1.0]])
    plain = plain.predict_dist(frame, at=at)
    other = model("number").fit(frame).predict_dist(frame, at=np.c_[at, [0.0, 1.0]])
    assert np.abs(other.mean - plain.mean).max() < 0.5 * plain.sd.mean()


@pytest.mark.parametrize(("c", "d"), [(-1e-6, 3.0), (1e8, -1e9)])
def test_the_unit_of_a_covariate_changes_nothing(small, c, d):
    frame = SMALL.assign(**{name: c * SMALL[name] + d for name in EVERY})
    other = model(EVERY).fit(frame)
    assert_allclose(other.log_prob(frame)[SEEN_SMALL], small.log_prob(SMALL)[SEEN_SMALL], atol=1e-4)


@pytest.mark.parametrize(("a", "b"), [(1e-6, 5.0), (-300.0, 1e4)])
def test_another_unit_of_the_value_is_the_same_field(small, a, b):
    frame = SMALL.assign(v=a * SMALL.v + b)
    other = model(EVERY).fit(frame)
    wanted = small.log_prob(SMALL)[SEEN_SMALL] - np.log(abs(a))
    assert_allclose(other.log_prob(frame)[SEEN_SMALL], wanted, atol=2e-3)


def test_names_and_rows_in_any_order_are_the_same_field(small):
    names = {f"s{k:02d}": f"t{5 * k % 8:02d}" for k in range(8)}
    mixed = SMALL.assign(site=SMALL.site.map(names)).sample(frac=1, random_state=0)
    other = pd.Series(model(EVERY).fit(mixed).log_prob(mixed), index=mixed.index)
    wanted = pd.Series(small.log_prob(SMALL), index=SMALL.index)
    assert_allclose(other[SMALL.index][SEEN_SMALL], wanted[SEEN_SMALL], atol=1e-4)


def test_no_value_moves_its_own_distribution_and_covariates_do(fitted):
    row = int(np.flatnonzero(SEEN)[20])
    plain = fitted.predict_dist(FRAME).mixture.eta[0, row]
    value = FRAME.assign(v=FRAME.v.where(FRAME.index != row, 99.0))
    assert_array_equal(fitted.predict_dist(value).mixture.eta[0, row], plain)
    warmer = FRAME.assign(forecast=FRAME.forecast.where(FRAME.index != row, 99.0))
    assert abs(float(fitted.predict_dist(warmer).mixture.eta[0, row, 0] - plain[0])) > 1
    higher = FRAME.assign(altitude=FRAME.altitude + 500)
    assert_array_equal(fitted.log_prob(higher), fitted.log_prob(FRAME))  # all sites are known


def test_means_are_exactly_the_sum_of_what_explains_them(fitted):
    mean = pd.Series(fitted.predict(FRAME), index=[FRAME.day, FRAME.site])
    for of_map in fitted.explain(FRAME)[::10]:
        keys = [(of_map.time, site) for site in of_map.site[of_map.own]]
        whole = of_map.normal + of_map.contributions.sum(1) + of_map.shift
        assert_allclose(whole, mean[keys], rtol=1e-5)
        rows = FRAME.set_index(["day", "site"]).loc[keys]
        # Of forecasts alone: two thirds of how far they are from their mean.
        line = np.polyfit(rows.forecast, of_map.covariates, 1)
        assert line[0] == pytest.approx(2 / 3, abs=0.1)
        assert_allclose(np.polyval(line, rows.forecast), of_map.covariates, atol=0.3)


def test_attention_has_covariates_in_its_base(tmp_path):
    frame = valleys(n_days=20, n_sites=6)
    efa = FieldEFA(**COLUMNS, covariates=EVERY, max_epochs=1, progress=False).fit(frame)
    base = model(EVERY).fit(frame)
    assert_allclose(efa.score(frame), base.score(frame), atol=0.1)
    efa.save(tmp_path / "model")
    assert_array_equal(load(tmp_path / "model").log_prob(frame), efa.log_prob(frame))


def test_a_saved_model_predicts_the_same_bits(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_array_equal(loaded.log_prob(FRAME), fitted.log_prob(FRAME))
    assert loaded.shape_ == fitted.shape_ and loaded.shape_.covariate_varies == (False, True)


def test_files_and_groups_are_read_as_frames_are(small, tmp_path):
    SMALL.to_csv(tmp_path / "field.csv", index=False)
    groups = read_field(SMALL, covariates=EVERY, **COLUMNS)
    from_file = model(EVERY).fit(tmp_path / "field.csv")
    from_groups = FieldGaussian(metric="euclidean").fit(groups)
    wanted = small.score(SMALL)
    assert from_file.score(SMALL) == from_groups.score(groups) == pytest.approx(wanted)


def test_places_are_given_with_their_covariates():
    fitted = model("altitude", lags=1).fit(FRAME)
    at = pd.DataFrame({"name": ["a", "b"], "altitude": [10, 1500], "y": [2.0, 3], "x": [1.0, 2.0]})
    found = fitted.predict_dist(FRAME, at=at)
    assert_array_equal(fitted.predict(FRAME, at=[[1, 2, 10], [2, 3, 1500]]), found.mean)
    new = pd.concat([at.assign(day=day, site=at.name) for day in range(24)])
    whole = pd.concat([FRAME, new], ignore_index=True)
    assert_allclose(found.mean, fitted.predict(whole)[len(FRAME) :], rtol=1e-5)
    assert (found.mean.reshape(-1, 2)[:, 0] > found.mean.reshape(-1, 2)[:, 1]).all()
    future = fitted.forecast(whole, steps=2, n=3)
    assert future.draws.shape == (3, 2, 18) and np.isfinite(future.draws).all()


def test_what_cannot_be_known_of_places_and_times_is_refused(fitted):
    with pytest.raises(
        ExfamError, match="`at` must be left out for a model with covariates that c"
    ):
        fitted.predict(FRAME, at=[[0.0, 0.0]])
    with pytest.raises(ExfamError, match="`covariates` of maps to come must be known to forecast"):
        fitted.forecast(FRAME)
    other = model("altitude").fit(SMALL)
    with pytest.raises(
        ExfamError, match=r"with 2 columns, then 1 of covariates, .* got shape \(1, 2"
    ):
        other.predict(SMALL, at=[[0.0, 0.0]])
    with pytest.raises(ExfamError, match="`at` must hold finite covariates"):
        other.predict(SMALL, at=[[0.0, 0.0, np.inf]])


def test_covariates_must_be_known_in_every_row(fitted):
    with pytest.raises(DataError, match="`covariates` must not be missing, got nothing at row 7"):
        model(EVERY).fit(FRAME.assign(forecast=FRAME.forecast.where(FRAME.index != 7)))
    with pytest.raises(DataError, match="`covariates` must be finite, got inf .* row 7"):
        fitted.predict(FRAME.assign(altitude=FRAME.altitude.where(FRAME.index != 7, np.inf)))
    with pytest.raises(DataError, match="`covariates` must be numeric"):
        model("site").fit(FRAME)
    with pytest.raises(DataError, match="`covariates` must lie within 1e.08 times"):
        fitted.predict(FRAME.assign(altitude=FRAME.altitude.where(FRAME.index != 7, 1e300)))
    with pytest.raises(ExfamError, match="`covariates` must name every column once"):
        model(["altitude", "altitude"]).fit(FRAME)


def test_groups_must_have_the_covariates_of_training(fitted):
    groups = read_field(FRAME, covariates="forecast", **COLUMNS)
    with pytest.raises(DataError, match="must have 2 covariates, as in training, got 1"):
        fitted.predict(groups)
    holes = np.where(np.arange(len(FRAME)) == 5, np.nan, groups.attributes["covariates"][:, 0])
    broken = groups.with_(attributes={**groups.attributes, "covariates": holes[:, None]})
    with pytest.raises(DataError, match="`covariates` must be finite numbers in every row, got"):
        FieldGaussian(metric="euclidean").fit(broken)


def test_models_without_a_base_know_nothing_of_covariates():
    with pytest.raises(ExfamError, match="`covariates` must be None where there is no base"):
        FieldEFA(**COLUMNS, covariates="altitude", base="none").fit(FRAME)
    groups = read_field(FRAME, covariates=EVERY, **COLUMNS)
    plain = FieldKriging(**COLUMNS).fit(FRAME)
    assert_array_equal(
        FieldKriging(metric="euclidean").fit(groups).predict(groups), plain.predict(FRAME)
    )


@pytest.mark.parametrize("beside", [False, True])
def test_effects_are_found_and_sites_drawn_to_the_common_one(beside):
    random = np.random.default_rng(0)
    points = torch.from_numpy(random.normal(size=(12, 2)))
    x = torch.ones(200, 1).double()
    z = torch.from_numpy(random.normal(size=(200, 12, 2)))
    shown = torch.from_numpy(random.random((200, 12)) < 0.7)
    slopes = torch.from_numpy(1 + 0.5 * random.normal(size=(12, 2)))
    values = (z * slopes).sum(-1) + 3 + 0.1 * torch.from_numpy(random.normal(size=(200, 12)))

    def found(own):
        how = {"choice": EffectChoice(own, beside), "points": points, "n_flat": 2}
        return site_effects(values, shown, x, z, **how)

    common, half, alone = found(0.0), found(0.5), found(0.999)
    assert_allclose(common.common, slopes.mean(0), atol=0.3)
    assert_array_equal(common.own, common.common.expand(12, 2))
    # What is beside the sites around has in it the effects at these.
    assert_allclose(alone.own, slopes, atol=0.5 if beside else 0.1)
    nearer = (half.own - common.common).abs() < (alone.own - common.common).abs()
    assert nearer.double().mean() > 0.9


def test_effects_beside_those_around_are_free_of_what_these_share():
    random = np.random.default_rng(0)
    points = torch.from_numpy(random.normal(size=(10, 2)))
    shared = 5 * torch.from_numpy(random.normal(size=(300, 1)))
    z = shared + torch.from_numpy(random.normal(size=(300, 10)))
    # The weather raises both; of what is a site's own, the covariate says the opposite.
    values = shared - (z - shared)
    shown, x = torch.ones(300, 10, dtype=torch.bool), torch.ones(300, 1).double()
    found = {
        beside: float(
            site_effects(
                values,
                shown,
                x,
                z[..., None],
                choice=EffectChoice(0.0, beside),
                points=points,
                n_flat=2,
            ).common[0]
        )
        for beside in (False, True)
    }
    assert found[False] > 0.8 and found[True] < 0


def test_levels_follow_covariates_where_these_say_more_than_places():
    random = np.random.default_rng(0)
    points = torch.from_numpy(random.uniform(-1, 1, (40, 2)))
    more = torch.from_numpy(random.normal(size=(40, 1)))
    value = 2 + 3 * more[:, 0] + 0.1 * torch.from_numpy(random.normal(size=40))
    number = SiteNumber.of(points, value, 2, more)
    assert len(number.weights) == 100 and float(number.weights[50:].sum()) > 0.99
    places, height = torch.zeros(2, 2).double(), torch.tensor([[-1.0], [1.0]]).double()
    found = number.at(places, height)
    assert_allclose(found.mean, [-1.0, 5.0], atol=0.3)
    sites = torch.tensor([3, 30])
    alone = number.of_others(sites)
    assert_allclose(alone.mean, value[sites], atol=0.5)
    noise = torch.from_numpy(random.normal(size=(40, 1)))
    useless = SiteNumber.of(points, 2 + points[:, 0], 2, noise).weights
    assert float(useless[50:].sum()) < 0.9


def test_the_base_of_many_sites_has_covariates_too(monkeypatch):
    monkeypatch.setattr(field_base, "MOST_COLUMNS", 5)
    local = model(EVERY).fit(FRAME)
    assert isinstance(local.members_[0].value_part, LocalBasePart)
    monkeypatch.undo()
    whole = model(EVERY).fit(FRAME)
    assert_allclose(local.score(FRAME), whole.score(FRAME), atol=0.1)
    # A value that is predicted two higher is so because its own forecast is three higher.
    moved = FRAME.assign(forecast=FRAME.forecast + 3 * (FRAME.index == 5))
    assert local.predict(moved)[5] - local.predict(FRAME)[5] == pytest.approx(2, abs=0.3)
