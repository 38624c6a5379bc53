import gzip

import pytest
from sklearn.model_selection import train_test_split

from exfam.checks import DataError, ExfamError
from exfam.reading.public_sets import instacart
from exfam.reading.public_sets.instacart import NAMES
from exfam.reading.public_sets.named import public
from exfam_studies.efa.instacart import instacart_baskets

PARTS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def table(data_folder):
    return public("instacart")


@pytest.fixture(scope="module", params=["paper", "correct"])
def splits(request, data_folder):
    return instacart_baskets(request.param)


def orders(splits):
    return [set(getattr(splits, name).group_names.tolist()) for name in PARTS]


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder of data with two small baskets, and no others to be found."""
    content = {
        instacart.TRAIN: "order_id,product_id,rank\n251,1,1\n251,2,2\n",
        instacart.TEST: "order_id,product_id,rank\n7,63,1\n",
    }
    for name, text in content.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(instacart, "SOURCE", instacart.PublicFiles("instacart", how_to_get=""))
    return tmp_path


def test_baskets_are_whole(splits):
    parts = [getattr(splits, name) for name in PARTS]
    assert [len(part) for part in parts] == [18_585, 6_196, 1_433]
    assert sum(part.n_elements for part in parts) == 206_450 + 68_895 + 16_066
    assert max(part.lengths.max() for part in parts) == 24
    assert min(part.lengths.min() for part in parts) == 10
    assert not any(part.repeats_items() for part in parts)
    assert {part.n_items for part in parts} == {63}
    train, validation, test = orders(splits)
    assert not (train & validation or train & test or validation & test)


def test_the_papers_split_is_the_one_that_scikit_learn_draws(data_folder, table):
    frame = table.to_pandas()
    fit = frame[frame.split == "train"].order.unique()
    train, validation = train_test_split(fit, test_size=0.25, random_state=42)
    test = frame[frame.split == "test"].order.unique()
    papers = orders(instacart_baskets())
    assert papers == [set(train), set(validation), set(test)]
    one, other = (orders(instacart_baskets("correct", seed=seed)) for seed in (1, 2))
    assert one != other != papers


def test_baskets_are_rows_of_the_table_in_order_of_rank(splits, table):
    frame = table.to_pandas()
    for name in PARTS:
        groups = getattr(splits, name)
        for number in (0, len(groups) // 2, len(groups) - 1):
            group = groups[number]
            rows = frame.iloc[group.source_row[group.elements()]]
            assert set(rows.order) == set(group.group_names)
            assert rows["rank"].tolist() == list(range(1, len(rows) + 1))
            products = groups.vocabulary["item"][group.item[group.elements()]]
            assert products.tolist() == rows["product"].tolist()


def test_a_split_has_a_name():
    with pytest.raises(ExfamError, match="`split` must be one of 'paper', 'correct', got 'new'"):
        instacart_baskets("new")


def test_the_error_says_how_to_obtain_what_the_authors_prepared(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("EXFAM_DATA", raising=False)
    with pytest.raises(DataError, match="`instacart` must have its files .* got no in") as caught:
        public("instacart")
    files = ("data_train_final.csv", "data_test_final.csv", "instacart_items_63.csv")
    places = ("yixinw-lab/EFA", "EXFAM_DATA", str(tmp_path))
    for reported in (*files, *places, *instacart.SOURCE.md5.values()):
        assert reported in str(caught.value)


def test_without_a_file_of_names_products_have_numbers(small):
    table = public("instacart")
    assert table.to_pydict() == {
        "order": [251, 251, 7],
        "product": ["product 1", "product 2", "product 63"],
        "rank": [1, 2, 1],
        "split": ["train", "train", "test"],
    }
    # Names may stand in any order.
    lines = [f"{code},item {code},here" for code in range(63, 0, -1)]
    text = "\n".join(["code,product_name,aisle", *lines])
    (small / f"{NAMES}.gz").write_bytes(gzip.compress(text.encode()))
    table = public("instacart")
    assert table["product"].to_pylist() == ["item 1", "item 2", "item 63"]
    assert table["aisle"].to_pylist() == ["here"] * 3


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("code,name\n1,a\n", "something else"),
        ("code,product_name\n" + "".join(f"{code},same\n" for code in range(1, 64)), "others"),
        ("", "something else"),
    ],
)
def test_a_file_of_other_names_is_refused(small, text, got):
    (small / NAMES).write_text(text)
    with pytest.raises(DataError, match=f"`{NAMES}` must have columns code .1 to 63. .* got {got}"):
        public("instacart")
