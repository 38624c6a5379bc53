"""Communities: no species sees itself, what is known helps, units and orders do not matter."""

from dataclasses import replace

import numpy as np
import pytest

import exfam
from exfam import Community
from exfam.simulators import simulate_community
from exfam.tables.community import community_fit, community_training
from exfam.tables.community.association import correlations, shift_of, shifts
from exfam.tables.community.community_training import Correction
from exfam.tables.community.environment import block_folds

N_TRAIN = 120
COMMUNITY = simulate_community(220, 6, strength=2.0, seed=1)
NAMES = COMMUNITY.species


def table(rows, *, species=COMMUNITY.presence, covariates=("rainfall", "altitude", "soil")):
    """Some sites, their species last."""
    columns = {name: COMMUNITY.covariates[name] for name in covariates} | dict(species)
    return {name: np.array(column)[rows] for name, column in columns.items()}


TRAIN, TEST = table(slice(N_TRAIN)), table(slice(N_TRAIN, None))


def random_correction(n_species, *, seed=0):
    """One that is large, so that tests see it."""
    random = np.random.default_rng(seed)
    pairs = random.normal(size=(2, n_species, n_species))
    pairs[:, np.arange(n_species), np.arange(n_species)] = 0.0
    inward = random.normal(size=(2, 5, 3 * n_species))
    bias, outward = random.normal(size=(2, 5)), random.normal(size=(2, n_species, 5))
    return Correction(pairs, inward, bias, outward, 0.5)


def with_correction(model):
    """The model with a correction that is large."""
    community = model.community_
    parts = tuple(
        replace(part, correction=random_correction(len(community.species), seed=k))
        for k, part in enumerate(community.parts)
    )
    model.community_ = replace(community, parts=parts)
    return model


@pytest.fixture(scope="module", autouse=True)
def short_fits():
    """Fewer surfaces and epochs are tried than by default."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(community_fit, "RANGES", (1.0,))
        patch.setattr(community_fit, "SCALES", (1.0,))
        patch.setattr(community_training, "_MOST_EPOCHS", 12)
        yield


@pytest.fixture(scope="module")
def fitted():
    return Community(species=NAMES).fit(TRAIN)


@pytest.fixture(scope="module")
def corrected():
    return with_correction(Community(species=NAMES, correction=False).fit(TRAIN))


@pytest.fixture(scope="module", params=["hurdle", "count", "cover"])
def amounts(request):
    species = COMMUNITY.counts
    if request.param == "cover":
        species = {name: counts / (counts.max() + 1) for name, counts in species.items()}
    model = Community(species=NAMES, correction=False, family=request.param)
    return with_correction(model.fit(table(slice(N_TRAIN), species=species))), species


def test_no_species_sees_its_own_value(corrected):
    before = corrected.predict_proba(TEST)
    for k, name in enumerate(NAMES):
        flipped = corrected.predict_proba(TEST | {name: 1 - TEST[name]})
        np.testing.assert_allclose(flipped[:, k], before[:, k], atol=1e-12)
        hidden = corrected.conditional(name, TEST).presence
        np.testing.assert_allclose(hidden[:, k], before[:, k], atol=1e-12)
        others = np.delete(np.abs(flipped - before), k, axis=1)
        assert (others.max(0) > 1e-3).all()


def test_no_species_sees_its_own_amount(amounts):
    model, species = amounts
    sites = table(slice(N_TRAIN, None), species=species)
    before = model.predict(sites)
    for k, name in enumerate(NAMES[:3]):
        other = sites[name].max() - sites[name]
        moved = model.predict(sites | {name: other})
        np.testing.assert_allclose(moved[:, k], before[:, k], rtol=1e-9)
        assert np.abs(np.delete(moved - before, k, axis=1)).max() > 1e-3


def test_knowing_more_species_never_costs_more_than_a_standard_error(fitted):
    nats = {}
    for share in (0.0, 0.5, 1.0):
        inputs, value = fitted._scored(TEST, None)
        nats[share] = -fitted._log_probs(inputs, value, share, 0).mean(1)
        assert fitted.score(TEST, share=share) == pytest.approx(-nats[share].mean())
    for fewer, more in ((0.0, 0.5), (0.5, 1.0)):
        gain = nats[fewer] - nats[more]
        assert gain.mean() > -gain.std() / np.sqrt(len(gain))
    assert nats[0.0].mean() - nats[1.0].mean() > 0.01
    scores = fitted.scores_by_share(TEST, shares=(0.0, 1.0))
    assert scores[0.0] == fitted.score(TEST, share=0.0) < scores[1.0]


def test_covariates_alone_are_better_than_prevalence(fitted):
    share = np.array([TRAIN[name].mean() for name in NAMES])
    present = np.stack([TEST[name] for name in NAMES], axis=1)
    marginal = np.where(present > 0, np.log(share), np.log1p(-share)).mean()
    assert fitted.score(TEST, share=0) > marginal + 0.02


def test_units_of_covariates_do_not_matter(fitted):
    def changed(sites):
        return sites | {"rainfall": 1e-3 * sites["rainfall"] - 5, "altitude": -sites["altitude"]}

    other = Community(species=NAMES, correction=False).fit(changed(TRAIN))
    alike = Community(species=NAMES, correction=False).fit(TRAIN)
    ours, theirs = alike.predict_proba(TEST), other.predict_proba(changed(TEST))
    # Pieces of a piecewise linear function are mirrored exactly, but for rounding of quantiles.
    np.testing.assert_allclose(theirs, ours, atol=2e-3)


def test_the_order_of_species_does_not_matter():
    order = [3, 0, 5, 1, 4, 2]
    bare = {name: TEST[name] for name in ("rainfall", "altitude", "soil")}
    names = [NAMES[k] for k in order]
    ours = Community(species=NAMES, correction=False).fit(TRAIN)
    theirs = Community(species=names, correction=False).fit(TRAIN)
    np.testing.assert_allclose(
        theirs.predict_proba(bare), ours.predict_proba(bare)[:, order], atol=1e-9
    )
    # What is known in training is drawn by columns.
    apart = np.abs(theirs.predict_proba(TEST) - ours.predict_proba(TEST)[:, order])
    assert apart.mean() < 0.01


def test_species_may_be_given_apart(fitted):
    apart = [
        {name: TRAIN[name] for name in part} for part in (("rainfall", "altitude", "soil"), NAMES)
    ]
    model = Community(correction=False).fit(*apart)
    bare, known = ({n: TEST[n] for n in part} for part in (("rainfall", "altitude", "soil"), NAMES))
    inside = Community(species=NAMES, correction=False).fit(TRAIN)
    np.testing.assert_allclose(model.predict_proba(bare, known), inside.predict_proba(TEST))
    some = {name: known[name] for name in NAMES[:2]}
    assert np.abs(model.predict_proba(bare, some) - model.predict_proba(bare)).max() > 0.01
    assert model.species_ == NAMES and model.family_ == "presence"


def test_saved_models_are_as_they_were(corrected, tmp_path):
    corrected.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(TEST), corrected.predict_proba(TEST))
    np.testing.assert_array_equal(loaded.sample(TEST, n=2), corrected.sample(TEST, n=2))
    assert repr(loaded) == repr(corrected) and loaded.gain_ is None


def test_missing_cells_covariates_and_new_labels_are_no_errors(corrected):
    sites = {name: np.array(column, dtype=object) for name, column in TEST.items()}
    sites["rainfall"][0] = None
    sites["soil"][1] = "peat"
    sites["species 2"][2] = None
    proba = corrected.predict_proba(sites)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba[3:], corrected.predict_proba(TEST)[3:], atol=1e-12)
    log_prob = corrected.predict_dist(sites).log_prob({n: sites[n] for n in NAMES})
    assert np.isnan(log_prob[2, 1]) and np.isnan(log_prob).sum() == 1
    bare = corrected.predict_proba({"altitude": [310.0]})
    assert bare.shape == (1, 6) and ((bare > 0) & (bare < 1)).all()


def test_the_gain_is_a_sentence(fitted):
    assert str(fitted.gain_).startswith("The correction added ") and str(fitted.gain_) in repr(
        fitted
    )
    gate = fitted.gain_.gate
    assert (fitted.community_.parts[0].correction is None) == (gate == 0)


def test_a_chain_is_a_distribution_and_draws_follow_it(corrected):
    few = Community(species=NAMES[:3], correction=False)
    few = with_correction(few.fit({n: TRAIN[n] for n in ("rainfall", "altitude", *NAMES[:3])}))
    site = {"rainfall": np.full(8, 900.0), "altitude": np.full(8, 300.0)}
    cells = np.array(list(np.ndindex(2, 2, 2)))
    values = {name: cells[:, k] for k, name in enumerate(NAMES[:3])}
    for n_orders in (1, 4):
        whole = np.exp(few.log_prob(site, values, n_orders=n_orders))
        assert whole.sum() == pytest.approx(1.0)
    many = {name: np.repeat(column, 500) for name, column in site.items()}
    draws = few.sample(many, n_orders=1)[0]
    shares = np.bincount((draws @ [4, 2, 1]).astype(int), minlength=8) / len(draws)
    chances = np.exp(few.log_prob(site, values, n_orders=1))
    np.testing.assert_allclose(shares, chances, atol=0.03)
    kept = corrected.sample(TEST, {"species 3": TEST["species 3"]}, n=2)
    np.testing.assert_array_equal(kept[1, :, 2], TEST["species 3"])


def test_amounts_have_means_and_log_probs(amounts):
    model, species = amounts
    sites = table(slice(N_TRAIN, None), species=species)
    prediction = model.predict_dist(sites)
    assert np.isfinite(prediction.log_prob({n: sites[n] for n in NAMES})).all()
    assert model.family_ in repr(prediction)
    draws = model.sample(sites, n=1)
    assert draws.shape == (1, 100, 6) and (draws >= 0).all()
    if model.family_ == "cover":
        assert draws.max() < 1
    else:
        np.testing.assert_array_equal(draws, np.round(draws))
        one = {name: column[:1] for name, column in sites.items() if name not in NAMES}
        etas = model.predict_dist(one).etas
        values = np.arange(20_000.0)
        chances = [model.community_.log_prob_of(1, values, [e[0, 1:2] for e in etas])]
        assert np.exp(chances[0]).sum() == pytest.approx(1.0, abs=1e-6)
        mean = (values * np.exp(chances[0])).sum()
        assert model.predict(one)[0, 1] == pytest.approx(mean, rel=1e-4)


def test_explanations_add_up(corrected):
    etas = corrected.predict_dist(TEST).etas[0]
    for one in corrected.explain({n: c[:4] for n, c in TEST.items()}, of=["species 2"]):
        assert one.eta == pytest.approx(etas[one.site, 1])
        assert one.species == "species 2" and "species 2" not in one.others
        assert len(one.strongest(3)) == 3 and one.correction != 0
    alone = corrected.explain({"rainfall": [700.0]})
    assert len(alone) == 6 and not alone[0].others


def test_associations_are_those_of_the_hidden_factors(fitted):
    found = fitted.associations()
    upper = np.triu_indices(6, 1)
    assert np.corrcoef(found.correlation[upper], COMMUNITY.correlation[upper])[0, 1] > 0.7
    first, second, correlation, low, high = found.pairs(3)[0]
    assert first in NAMES and second in NAMES and low < correlation < high
    assert "pairs clear of 0" in repr(found) and found.is_clear.any()


def test_one_species_alone_and_none_known():
    one = Community(species="species 1").fit({n: TRAIN[n] for n in ("rainfall", "species 1")})
    site = {"rainfall": [800.0], "species 1": [1]}
    assert one.predict_proba(site) == one.predict_proba({"rainfall": [800.0]})
    bare = Community(species=NAMES, correction=False).fit({n: TRAIN[n] for n in NAMES})
    shown = bare.predict_proba({"species 2": [1, 0]})
    assert np.abs(shown[0] - shown[1]).max() > 0.01


def test_rare_species_and_ones_never_seen_are_likely_nowhere():
    rare = {name: np.zeros(N_TRAIN, dtype=int) for name in ("never", "once")}
    rare["once"][7] = 1
    model = Community(species=["never", "once", *NAMES], correction=False).fit(TRAIN | rare)
    proba = model.predict_proba(TEST)
    assert (proba[:, 0] > 0).all() and proba[:, 0].max() < 0.05 and proba[:, 1].max() < 0.2
    assert proba[:, 0].mean() < proba[:, 1].mean()


def test_a_surface_is_kept_where_it_helps():
    names = ("rainfall", "altitude", "soil")
    sites = simulate_community(260, 5, seed=6)
    columns = sites.columns(*names, "east", "north")
    train = {name: column[:160] for name, column in columns.items()}
    test = {name: column[160:] for name, column in columns.items()}
    place = Community(species=sites.species, coordinates=["east", "north"], correction=False)
    bare = Community(species=sites.species, correction=False)
    place.fit(train)
    bare.fit({n: c for n, c in train.items() if n not in ("east", "north")})
    assert place.community_.surface is not None
    assert place.score(test, share=0) > bare.score(test, share=0) + 0.005
    nowhere = {name: column for name, column in test.items() if name != "east"}
    assert np.isfinite(place.predict_proba(nowhere)).all()
    (one,) = place.explain({n: c[:1] for n, c in test.items()}, of="species 1")
    assert "east × north" in one.covariates
    assert one.eta == pytest.approx(place.predict_dist(test).etas[0][0, 0])


def test_blocks_are_held_out_whole():
    sites = simulate_community(130, 4, seed=4)
    year = np.repeat(np.arange(13), 10)
    model = Community(species=sites.species, blocks="year")
    model.fit({"year": year} | sites.columns("rainfall"))
    assert "year" in model.explain({"year": [3]}, of="species 1")[0].covariates
    folds = block_folds(year)
    assert (np.diff(folds) >= 0).all() and set(folds) == set(range(5))
    assert all(len(set(folds[year == y])) == 1 for y in range(13))
    regions = np.array(["a", "b", "c"], dtype=object)[np.arange(130) % 3]
    Community(species=sites.species, blocks="region", correction=False).fit(
        {"region": regions} | sites.presence
    )
    for column, message in (
        ({"b": [1, 1]}, "`blocks` must name a column of at least two values, got 'b' of one"),
        ({"c": [1, 2]}, "`blocks` must name a column of `X`, got 'b'"),
        ({"b": [1, None]}, "Column 'b' must have a value at each site, got .* Fill it in"),
    ):
        with pytest.raises(exfam.DataError, match=message):
            Community(species="a", blocks="b").fit({"a": [0, 1]} | column)


def test_effort_makes_species_likelier():
    sites = simulate_community(100, 4, seed=4)
    model = Community(species=sites.species, effort="hours", correction=False)
    model.fit(sites.columns("rainfall", "hours"))
    short, long = (model.predict_dist({"rainfall": [800.0], "hours": [h]}).etas[0] for h in (1, 5))
    np.testing.assert_allclose(long - short, np.log(5))
    (one,) = model.explain({"rainfall": [800.0], "hours": [5.0]}, of="species 2")
    assert one.covariates["hours"] == pytest.approx(np.log(5))
    with pytest.raises(
        exfam.DataError, match=r"Column 'hours' must be above 0, got 0.*leave it out"
    ):
        model.predict({"rainfall": [800.0], "hours": [0.0]})
    with pytest.raises(exfam.DataError, match="Column 'hours' must hold numbers, got 'x'"):
        model.predict({"rainfall": [800.0], "hours": ["x"]})


def test_counts_choose_their_family():
    random = np.random.default_rng(0)
    x = random.normal(size=150)
    plain = {"x": x, "a": random.poisson(np.exp(1 + x)), "b": random.poisson(np.exp(0.5 - x))}
    assert Community(species=["a", "b"], correction=False).fit(plain).family_ == "count"
    there = random.random((2, 150)) < 0.4
    zeros = {"x": x} | {n: there[k] * (4 + random.poisson(3, 150)) for k, n in enumerate("ab")}
    assert Community(species=["a", "b"], correction=False).fit(zeros).family_ == "hurdle"


def test_shifts_are_those_of_a_gaussian():
    random = np.random.default_rng(0)
    residual = random.normal(size=(40, 5)) @ random.normal(size=(5, 5))
    there = random.random((40, 5)) < 0.9
    matrix = correlations(residual, there)
    known = random.random((40, 5)) < 0.5
    whole = shifts(matrix, residual, known, ridge=0.3)
    for s in range(5):
        own = shift_of(matrix, residual, known, species=s, ridge=0.3)
        np.testing.assert_allclose(whole[:, s], own, atol=1e-10)
    np.testing.assert_allclose(np.diag(matrix), 1.0)


@pytest.mark.parametrize(
    ("sites", "options", "message"),
    [
        (None, {}, "`Y` must be a table of species, got None. Pass one, or name the species"),
        (
            None,
            {"species": "specie 1"},
            "`species` must name columns of `X`, got 'specie 1'. Did you",
        ),
        (None, {"species": "zzz"}, "got 'zzz'. Name columns of `X`."),
        ({"a": [1, -1]}, {"species": "a"}, "Column 'a' must be 0 or more, got -1 at row 1"),
        (
            {"a": ["x", "y"]},
            {"species": "a"},
            "Column 'a' must hold numbers, as a species, got 'x'",
        ),
        (
            {"a": [None, None]},
            {"species": "a"},
            "`Y` must hold a value of some species at some site",
        ),
        (
            {"a": [0.5, 2.0]},
            {"species": "a"},
            "Species 'a' must be shares of cover.*Divide percents",
        ),
        (
            {"a": [0.5, 1.0]},
            {"species": "a", "family": "count"},
            "Species 'a' must be whole numbers",
        ),
        ({"a": [0, 1]}, {"species": ["a", "a"]}, "`species` must name every column once"),
        ({"a": [0, 1]}, {"species": []}, "must be a table of species, got None"),
        (
            {"a": [0, 1], "e": ["x", "y"]},
            {"species": "a", "coordinates": "e"},
            "Column 'e' must hold numbers, got 'x' at row 0",
        ),
    ],
)
def test_bad_sites_are_refused(sites, options, message):
    with pytest.raises(exfam.ExfamError, match=message):
        Community(**options).fit(TRAIN if sites is None else sites)


def test_bad_arguments_are_refused(corrected):
    with pytest.raises(exfam.DataError, match="`X` must not have a column that `Y` has, got 'a'"):
        Community().fit({"a": [1, 2]}, {"a": [0, 1]})
    with pytest.raises(exfam.DataError, match="`Y` must have a row for each of `X`, 2, got 3"):
        Community().fit({"a": [1, 2]}, {"b": [0, 1, 0]})
    with pytest.raises(exfam.DataError, match="`known` must have a row for each of `X`, 1, got 2"):
        corrected.predict({"rainfall": [1.0]}, {"species 1": [0, 1]})
    with pytest.raises(
        exfam.DataError, match="`known` must have species of the fit, got 'specie 1'. Di"
    ):
        corrected.predict({"rainfall": [1.0]}, {"specie 1": [0]})
    with pytest.raises(exfam.DataError, match="got 'zzz'. Leave it out"):
        corrected.predict({"rainfall": [1.0]}, {"zzz": [0]})
    with pytest.raises(exfam.DataError, match="`Y` must hold a value of some species to score"):
        corrected.score({"rainfall": [1.0]})
    with pytest.raises(exfam.ExfamError, match="`share` must be a number strictly between 0 and 1"):
        corrected.score(TEST, share=2)
    with pytest.raises(exfam.ExfamError, match="`of` must name species of the fit, got 'x'"):
        corrected.conditional("x", TEST)
    with pytest.raises(exfam.ExfamError, match="`of` must name species of the fit, got 1.5"):
        corrected.conditional(1.5, TEST)
    with pytest.raises(exfam.ExfamError, match="`shares` must be a list of shares, got 0.5"):
        corrected.scores_by_share(TEST, shares=0.5)
    with pytest.raises(exfam.DataError, match="`part` must be below 1 for 'presence', got 1"):
        corrected.associations(part=1)
    with pytest.raises(
        exfam.DataError, match="Column 'rainfall' must hold numbers, as in training"
    ):
        corrected.predict({"rainfall": ["much"]})
