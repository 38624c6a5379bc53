"""Items by their attributes: laws of models that take in items never seen."""

import contextlib
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from exfam import EFA, Popularity, cli, load
from exfam.catalog.ranking import all_log_probs
from exfam.checks import DataError, ExfamError, ExfamWarning, UnknownItemError
from exfam.efa.attributes import new_in_ridge
from exfam.efa.attributes.coding import FeatureCoding
from exfam.efa.attributes.item_attributes import ItemAttributes
from exfam.efa.attributes.item_table import read_item_table
from exfam.efa.attributes.likeness import CountLine, like_items
from exfam.efa.attributes.new_in_ridge import NewItems, with_new_items, without_items
from exfam.efa.attributes.weigh_new import first_occurrences
from exfam.efa.base.fit_ridge import fit_ridge_items
from exfam.efa.networks.new_items import NewItemTerms, WithNewItems
from exfam.groups import Groups
from exfam.likelihoods.two_part import HardExclusion

COLUMNS = {"group": "basket", "item": "product"}
SMALL = {
    **COLUMNS,
    "embed_dim": 8,
    "n_heads": 1,
    "head_dim": 4,
    "max_epochs": 2,
    "ensemble": 1,
    "progress": False,
}
KINDS = {
    "base alone": {"attention": "none"},
    "corrected": {"n_sampled_items": 5},
    "tied": {"base": "none", "tie": "reflection"},
    "causal": {"base": "none", "direction": "causal", "order": "rows"},
    "transitions": {"attention": "none", "direction": "causal", "order": "rows"},
}
N_OLD, N_NEW, N_THEMES = 18, 4, 3


def themes(n_baskets, products, *, seed=0):
    """Baskets of products of one theme, and another product."""
    random = np.random.default_rng(seed)
    rows = []
    for basket in range(n_baskets):
        theme = random.integers(N_THEMES)
        own = [product for product in products if product % N_THEMES == theme]
        held = {*random.choice(own, 4, replace=True).tolist(), int(random.choice(products))}
        rows += [(f"b{basket}", f"p{product:02d}") for product in sorted(held)]
    return pd.DataFrame(rows, columns=["basket", "product"])


def attributes(products):
    products = np.asarray(products)
    return pd.DataFrame(
        {
            "product": [f"p{product:02d}" for product in products],
            "theme": [f"theme {product % N_THEMES}" for product in products],
            "price": 1.0 + products % 5,
        }
    )


OLD, NEW = np.arange(N_OLD), np.arange(N_OLD, N_OLD + N_NEW)
TRAIN = themes(100, OLD)
TEST = themes(30, np.arange(N_OLD + N_NEW), seed=1)


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    model = EFA(**SMALL | KINDS[request.param])
    return model.fit(TRAIN, item_attributes=attributes(OLD))


@pytest.fixture(scope="module")
def alone():
    model = EFA(**SMALL, attention="none")
    return model.fit(TRAIN, item_attributes=attributes(OLD))


def item_nats(model, frame):
    return model.log_prob_parts(frame)["item"]


def test_probabilities_of_a_larger_catalog_sum_to_one(fitted):
    larger = fitted.with_items(attributes(NEW))
    chance = larger.predict_proba(TEST)
    assert chance.shape == (len(TEST), N_OLD + N_NEW)
    np.testing.assert_allclose(chance.sum(1), 1, atol=1e-5)
    assert (chance[:, N_OLD:].max(0) > 0).all()
    assert len(fitted.vocabulary_["item"]) == N_OLD  # the model stays as it is
    assert fitted.predict_proba(TRAIN).shape[1] == N_OLD


def test_old_items_keep_their_scores(fitted):
    larger = fitted.with_items(attributes(NEW))
    before, after = fitted.predict_proba(TRAIN), larger.predict_proba(TRAIN)[:, :N_OLD]
    # What is mixed with a base's probabilities keeps the ratios of each part, not of the mixture.
    if not any(float(getattr(member.item_part, "mix", 0)) for member in fitted.members_):
        left = after.sum(1, keepdims=True)
        np.testing.assert_allclose(after / left, before, atol=1e-5)
        assert left.max() < 1


def test_the_order_of_rows_does_not_matter(fitted):
    table = attributes(NEW)
    one, other = fitted.with_items(table), fitted.with_items(table[::-1])
    assert one.vocabulary_["item"].tolist() == other.vocabulary_["item"].tolist()
    np.testing.assert_array_equal(one.predict_proba(TEST), other.predict_proba(TEST))


def test_items_with_the_same_attributes_have_the_same_probabilities(fitted):
    table = attributes([*NEW, *NEW]).assign(product=[f"q{k}" for k in range(2 * N_NEW)])
    chance = fitted.with_items(table).predict_proba(TRAIN)[:, N_OLD:]
    np.testing.assert_allclose(chance[:, :N_NEW], chance[:, N_NEW:], rtol=1e-4)
    assert np.ptp(chance[:, :N_NEW], axis=1).max() > 0


def test_a_larger_model_is_saved_and_loaded(fitted, tmp_path):
    larger = fitted.with_items(attributes(NEW[:2]))
    larger.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(item_nats(loaded, TRAIN), item_nats(larger, TRAIN))
    # What was loaded takes in further items as the model does.
    both = [model.with_items(attributes(NEW[2:])) for model in (larger, loaded)]
    nats = [item_nats(model, TEST) for model in both]
    np.testing.assert_array_equal(*nats)
    assert np.isfinite(nats[0]).all()


def test_new_items_are_scored_recommended_and_explained(fitted):
    larger = fitted.with_items(attributes(NEW))
    assert np.isfinite(larger.score(TEST))
    recommended = larger.recommend(TEST, k=N_OLD + N_NEW)
    assert set(attributes(NEW)["product"]) <= set(recommended.items.ravel())
    assert len(larger.complements("p18", k=3).items) == 3
    assert len(larger.explain(TEST)) == 30
    if fitted.parameters_["base"] != "none":
        assert np.isfinite(larger.explain_item(TEST, "p18").probability).all()
    assert np.isfinite(larger.score(TRAIN))


def test_attributes_say_what_new_items_go_with(alone):
    larger = alone.with_items(attributes(NEW))
    nats, is_new = item_nats(larger, TEST), TEST["product"].isin(attributes(NEW)["product"])
    shuffled = attributes(NEW).assign(theme=attributes(NEW + 1)["theme"].tolist())
    wrong = item_nats(alone.with_items(shuffled), TEST)
    assert nats[is_new].mean() > wrong[is_new].mean() + 0.1
    assert nats[is_new].mean() > -np.log(N_OLD + N_NEW)


def test_without_attributes_the_fit_is_the_same():
    one, other = EFA(**SMALL).fit(TRAIN), EFA(**SMALL).fit(TRAIN, item_attributes=None)
    states = [model.members_[0].state_dict() for model in (one, other)]
    assert states[0].keys() == states[1].keys()
    assert not any("own_share" in name or "shift" in name for name in states[0])
    for name, numbers in states[0].items():
        assert torch.equal(numbers, states[1][name])
    with pytest.raises(ExfamError, match="`with_items` needs a model that knows items by their"):
        one.with_items(attributes(NEW))


def test_a_base_goes_on_with_groups_of_new_items(alone):
    larger = alone.with_items(attributes(NEW))
    before = larger.score(TEST)
    larger.partial_fit(themes(200, np.arange(N_OLD + N_NEW), seed=2))
    assert larger.score(TEST) > before + 0.05
    with pytest.raises(UnknownItemError, match="or add them by with_items first"):
        alone.partial_fit(TEST)


def test_a_base_without_items_is_one_that_was_fitted_without_them():
    groups = Groups(start=[0, 3, 6, 8], stop=[3, 6, 8, 11], item=[0, 1, 2, 1, 2, 3, 0, 3, 0, 2, 4])
    base = fit_ridge_items(groups, 5, support="hard")
    part = without_items(base, np.array([1, 4]))
    gram = torch.linalg.inv(base.precision.double())
    kept = [0, 2, 3]
    expected = torch.linalg.inv(gram[kept][:, kept])
    torch.testing.assert_close(part.precision.double(), expected, rtol=1e-3, atol=1e-5)
    assert part.row.tolist() == [0, -1, 1, 2, -1]


def test_an_item_that_is_like_one_other_has_its_scores(monkeypatch):
    monkeypatch.setattr(new_in_ridge, "STRENGTH", 1.0)
    groups = Groups(start=[0, 3, 6, 8], stop=[3, 6, 8, 11], item=[0, 1, 2, 1, 2, 3, 0, 3, 0, 2, 4])
    base = fit_ridge_items(groups, 5, support="none")
    share = np.array([[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]])
    new = NewItems(np.array([5]), share, np.array([float(base.count[2])]))
    larger = with_new_items(base, new, n_items=6)
    weights = -larger.precision / larger.precision.diagonal()
    others = [0, 1, 3, 4]
    torch.testing.assert_close(weights[others, 5], weights[others, 2])
    torch.testing.assert_close(weights[5, others], weights[2, others])
    batch = Groups(start=[0], stop=[3], item=[0, 1, 5]).pad(np.array([0]))
    where = batch.target.nonzero(as_tuple=True)
    outputs = larger.outputs(batch, where, torch.arange(6))
    torch.testing.assert_close(outputs[2, 5], outputs[2, 2])
    own = larger.own(batch, where, torch.tensor([5, 2, 5]))
    torch.testing.assert_close(own, outputs[[0, 1, 2], [5, 2, 5]])


def test_shares_of_like_items_sum_to_one_and_favor_the_nearest():
    random = np.random.default_rng(0)
    old, known = random.normal(size=(6, 2)), np.array([True] * 5 + [False])
    share = like_items(old[:2] + 0.01, old, known, width=0.2)
    np.testing.assert_allclose(share.sum(1), 1)
    assert share.argmax(1).tolist() == [0, 1]
    assert not share[:, 5].any()
    even = like_items(old[:2] * 1e3, old, known, width=1e6)
    np.testing.assert_allclose(even[:, :5], 0.2, rtol=1e-3)


def test_counts_that_are_a_line_in_features_are_found():
    random = np.random.default_rng(0)
    features = random.normal(size=(60, 3))
    log_count = 1.5 + features @ np.array([0.5, -1.0, 0.0])
    line = CountLine.of(features, log_count)
    np.testing.assert_allclose(line.at(features), log_count, atol=0.01)
    noise = CountLine.of(features, random.normal(size=60))
    assert np.abs(noise.slopes).max() < 0.3


def coded(frame, labels=("a", "b", "c", "d")):
    table = read_item_table(frame, argument="items", item=None, labels=np.array(labels))
    coding = FeatureCoding.of(table, "items")
    return coding, coding.numbers(table, "items")


def test_missing_cells_have_the_mean_and_say_that_they_are_missing():
    frame = {"item": list("abcd"), "price": [1.0, 3.0, None, 2.0], "kind": ["x", "x", None, "y"]}
    coding, numbers = coded(frame)
    price, kind = coding.codes
    assert kind.labels == ("x",)  # no two items share "y"
    assert price.marks_missing
    assert kind.marks_missing
    assert numbers[2, 0] == 0  # the mean
    assert numbers[2, 1] > numbers[0, 1]
    np.testing.assert_allclose(numbers[:, 0].sum(), 0, atol=1e-12)
    assert FeatureCoding.from_config(coding.to_config()) == coding


def test_a_model_says_which_labels_it_does_not_know(alone):
    table = attributes(NEW).assign(theme=["theme 0", "new theme", None, "theme 1"])
    with pytest.warns(ExfamWarning, match="1 cells of `items` hold labels .* 'new theme'"):
        larger = alone.with_items(table)
    assert np.isfinite(larger.predict_proba(TEST)).all()


def test_items_without_a_row_have_vectors_of_their_own():
    with pytest.warns(ExfamWarning, match="2 of 18 items have no row in `item_attributes`"):
        model = EFA(**SMALL).fit(TRAIN, item_attributes=attributes(OLD[2:]))
    assert not model.item_attributes_.features[:2].any()
    larger = model.with_items(attributes(NEW))
    np.testing.assert_allclose(larger.predict_proba(TEST).sum(1), 1, atol=1e-5)


def test_a_file_is_as_good_as_a_frame(alone, tmp_path):
    attributes(NEW).to_csv(tmp_path / "new.csv", index=False)
    one, other = (alone.with_items(source) for source in (attributes(NEW), tmp_path / "new.csv"))
    np.testing.assert_array_equal(one.predict_proba(TEST), other.predict_proba(TEST))


def twice(table):
    return pd.concat([table, table[:1]])


REFUSED = {
    "`item_attributes` must have a column 'product' that holds": lambda table: table[["price"]],
    "`item_attributes` must have a column beside 'product'": lambda table: table[["product"]],
    r"must have one row for each item, got 'p00' at rows \[0, 18\]": twice,
    "must have an item in every row, got none at row 0": lambda table: table.assign(
        product=[None, *table["product"][1:]]
    ),
    "must hold texts, numbers or booleans, got timestamp": lambda table: table.assign(
        since=pd.Timestamp("2020-01-01")
    ),
    "must hold texts that items share, got another one for every item in column 'name'": (
        lambda table: table.assign(name=[f"name {k}" for k in range(len(table))])
    ),
    "must have a row for items of the data, such as 'p00', got none": lambda table: table.assign(
        product=[f"x{k}" for k in range(len(table))]
    ),
    "`item_attributes` must be a pandas or polars frame": lambda table: 3,
    "`item_attributes` must have at least one row, got none": lambda table: table[:0],
}


@pytest.mark.parametrize(("message", "change"), REFUSED.items())
def test_tables_that_cannot_be_read_are_refused(message, change):
    with pytest.raises(DataError, match=message):
        EFA(**SMALL, attention="none").fit(TRAIN, item_attributes=change(attributes(OLD)))


REFUSED_NEW = {
    r"`items` must be items that the model lacks, got 'p00' at row 0 \(18 of 18 rows\)": (
        lambda table: attributes(OLD)
    ),
    r"`items` must name items by str, as the model does, got 18 \(int\)": lambda table: (
        table.assign(product=NEW)
    ),
    "`items` must have the column 'price', as in the fit": lambda table: table[
        ["product", "theme"]
    ],
    "`items` must hold numbers in column 'price', as in the fit, got texts": lambda table: (
        table.assign(price="cheap")
    ),
}


@pytest.mark.parametrize(("message", "change"), REFUSED_NEW.items())
def test_items_that_cannot_be_added_are_refused(alone, message, change):
    with pytest.raises(DataError, match=message):
        alone.with_items(change(attributes(NEW)))


def test_models_of_other_kinds_are_refused():
    with_value = TRAIN.assign(stars=1.0)
    with pytest.raises(ExfamError, match="`item_attributes` must come with items alone"):
        EFA(**SMALL, value="stars").fit(with_value, item_attributes=attributes(OLD))


def test_attributes_are_saved_as_they_are(alone):
    held = alone.item_attributes_
    again = ItemAttributes.from_config(held.to_config(), held.arrays())
    assert again.coding == held.coding
    assert again.weights == held.weights
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(again.features, held.features)


def test_new_items_do_not_see_the_element_itself(fitted):
    larger = fitted.with_items(attributes(NEW))
    one = pd.DataFrame({"basket": ["b"] * 4, "product": ["p00", "p19", "p03", "p06"]})
    for changed in ("p18", "p07"):
        other = one.assign(product=[*one["product"][:3], changed])
        last = [larger.predict_proba(frame)[3] for frame in (one, other)]
        np.testing.assert_allclose(*last, rtol=1e-4)
    visible = one.assign(product=["p01", *one["product"][1:]])
    assert np.abs(larger.predict_proba(visible)[3] - last[0])[N_OLD:].max() > 1e-4


def test_outputs_kept_as_factors_are_those_of_all_items(fitted):
    member = fitted.with_items(attributes(NEW)).members_[0]
    groups = fitted.with_items(attributes(NEW))._inputs(TEST).groups
    batch = groups.pad(np.arange(5))
    where = batch.target.nonzero(as_tuple=True)
    with torch.no_grad():
        dense = member.item_log_probs(batch)[where]
        factors = all_log_probs(member.choice(batch, where))
    seen = torch.isneginf(dense)
    torch.testing.assert_close(factors.masked_fill(seen, 0), dense.masked_fill(seen, 0))
    assert (factors[seen] < -1e4).all()


def test_new_items_have_their_share_where_nothing_else_is_left():
    terms = NewItemTerms(
        torch.randn(4, 2, generator=torch.Generator().manual_seed(0)),
        shift=torch.zeros(2),
        taste=torch.zeros(2, 3),
        nearest=torch.full((2,), 0.5),
        log_odds=float(np.log(0.25)),
    )
    support = WithNewItems(HardExclusion(), terms)
    batch = Groups(start=[0], stop=[3], item=[0, 1, 2]).pad(np.array([0]))
    chance = support(torch.zeros(1, 3, 4), batch, "bidirectional").softmax(-1)[0]
    torch.testing.assert_close(chance[0], torch.tensor([0.8, 0, 0, 0.2]))
    torch.testing.assert_close(chance[2, 2:].sum(), torch.tensor(1.0))
    assert not chance[2, :2].any()


def test_first_times_are_counted_over_batches():
    counted = torch.zeros(2, dtype=torch.int64)
    code = torch.tensor([[0, 0, -1, 1], [0, 0, 0, 0]])
    row, position = first_occurrences(code, counted)
    assert len(row) == 7 and (code[row, position] >= 0).all()
    row, position = first_occurrences(code, counted)
    assert [int((code[row, position] == number).sum()) for number in (0, 1)] == [4, 1]
    assert counted.tolist() == [12, 2]


def test_sales_of_added_items_count_the_more_the_more_there_are(alone):
    larger = alone.with_items(attributes(NEW))
    few, many = (themes(n, np.arange(N_OLD + N_NEW), seed=4) for n in (5, 100))
    held = [
        alone.with_items(attributes(NEW)).partial_fit(some).item_attributes_.history()
        for some in (few, many)
    ]
    assert not larger.item_attributes_.history().any()
    assert (held[0] <= held[1]).all() and (held[1] > 0.2).all()


def test_files_of_attributes_on_the_command_line(tmp_path, capfd):
    for name, frame in {
        "baskets": TRAIN,
        "old": attributes(OLD),
        "new": attributes(NEW),
        "mine": pd.DataFrame({"basket": ["mine"] * 2, "product": ["p00", "p18"]}),
    }.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    fit = ["fit", "baskets.csv", "--group", "basket", "--item", "product", "--attention", "none"]
    recommend = ["recommend", "model", "mine.csv", "-k", "30", "--format", "csv"]
    with contextlib.chdir(tmp_path):
        assert cli.main([*fit, "--item-attributes", "old.csv", "-o", "model"]) == 0
        capfd.readouterr()
        assert cli.main([*recommend, "--new-items", "new.csv"]) == 0
        listed = capfd.readouterr().out
        assert "p19" in listed and "p18" not in listed
        Popularity(**COLUMNS).fit(TRAIN).save("popularity")
        assert cli.main(["recommend", "popularity", *recommend[2:], "--new-items", "new.csv"]) == 2
    assert "`--new-items` needs a model that knows items by their attrib" in capfd.readouterr().err
