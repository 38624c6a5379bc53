"""Small fitted models that are explored, and what asks them."""

import json
import urllib.error
import urllib.request
from functools import cache

import numpy as np
import pandas as pd

from exfam import (
    EFA,
    FieldGaussian,
    Marginal,
    MaskedLanguageModel,
    MaskedTable,
    WordVectors,
)
from exfam.simulators import simulate_field
from small_forests import small_forests

HOSTILE = [
    "<img src=x onerror=document.title='broken'>", "<script>document.title='broken'</script>",
    '"><b>bold</b>', "${7*7}{{7*7}}", "'; DROP TABLE items; --", "../../etc/passwd", "a&amp;b",
    "javascript:alert(1)", "\u202eright to left", "new\nline", "tab\there", "nul\x00byte", "👩‍👩‍👧",
    "%00%2e%2e", "#items=1&item=2", "?token=1", "x" * 300, "\ufeffmark", "&lt;b&gt;", "\\u003cb",
]  # fmt: skip


def hostile_names(n):
    """So many different names, of a kind each that has broken pages before."""
    return [f"{name} {k}" for k in range(n // len(HOSTILE) + 1) for name in HOSTILE][:n]


def baskets(*, n_groups=60, names=tuple("abcdefgh"), seed=0):
    random = np.random.default_rng(seed)
    rows = []
    for group in range(n_groups):
        half = random.integers(2) * (len(names) // 2)
        chosen = half + random.choice(len(names) // 2, size=3, replace=False)
        rows += [(group, names[k]) for k in chosen]
    return pd.DataFrame(rows, columns=["basket", "item"])


@cache
def items_model(*, attention="none", direction="bidirectional", base="auto", order=None):
    order = "rows" if direction == "causal" else order
    network = {"max_epochs": 1, "ensemble": 1, "embed_dim": 8} if attention != "none" else {}
    chosen = {"attention": attention, "direction": direction, "base": base, "order": order}
    model = EFA(group="basket", item="item", progress=False, **chosen, **network)
    return model.fit(baskets())


def rows_of_cars(n=80, seed=0):
    random = np.random.default_rng(seed)
    weight = random.normal(1200, 250, n)
    frame = pd.DataFrame(
        {
            "weight": weight.round(1),
            "mpg": (50 - weight / 50 + random.normal(0, 2, n)).round(2),
            "origin": np.where(weight + random.normal(0, 150, n) > 1200, "usa", "japan"),
            "doors": random.poisson(2, n) + 1,
        }
    )
    return frame


@cache
@small_forests()
def table_model():
    return MaskedTable(progress=False, kinds={"doors": "count"}).fit(rows_of_cars())


def posted(explorer, name, question, **headers):
    """Status and answer of a question over HTTP."""
    body = question if isinstance(question, bytes) else json.dumps(question).encode()
    given = {"Content-Type": "application/json", **headers}
    return fetched(f"{explorer.address}ask/{name}", data=body, headers=given)


def fetched(address, **options):
    """Status and body, as JSON where it is."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, **options)) as response:
            status, body, headers = response.status, response.read(), response.headers
    except urllib.error.HTTPError as error:
        status, body, headers = error.code, error.read(), error.headers
    is_json = headers.get_content_type() == "application/json"
    return status, json.loads(body) if is_json else body.decode()


FIELD = {
    "time": "time", "site": "site", "coordinates": ["latitude", "longitude"], "value": "value"
}  # fmt: skip


@cache
def maps_of_stations():
    return simulate_field(8, 60, season=0.0, missing=0.1, seed=0).frame.to_pandas()


@cache
def field_model():
    return FieldGaussian(**FIELD, lags=1).fit(maps_of_stations())


WORDS = ("tea", "coffee", "milk", "bread", "butter", "tea cake", "green tea", "jam", "salt", "rice")


@cache
def word_vectors():
    """Tied vectors of ten words, of which half the columns are reflected."""
    center = np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32)
    return WordVectors(WORDS, center, None, np.array([1, 1, 1, -1, -1, -1], dtype=np.int8))


def attributes_of_words():
    """Two rows of most words: what they are, and a number."""
    kinds = ["drink", "drink", "drink", "food", "food", "food", "drink", "food", "food", "food"]
    numbers = [float(k) for k in range(20)]
    return {"what": list(WORDS) * 2, "kind": kinds * 2, "price": numbers}


@cache
def marginal_of_baskets():
    return Marginal(group="basket", item="item").fit(baskets())


@cache
def field_without_lags():
    return FieldGaussian(**FIELD, lags=0).fit(maps_of_stations())


@cache
def plain_table():
    """Each column by itself."""
    chosen = {"base": "none", "max_epochs": 1, "ensemble": 1, "embed_dim": 4}
    model = MaskedTable(progress=False, kinds={"doors": "count"}, **chosen)
    return model.fit(rows_of_cars())


@cache
def language_model():
    """Of two layers with four heads each, hardly trained."""
    sizes = {"embed_dim": 8, "n_heads": 4, "n_layers": 2, "feed_forward_dim": 16, "length": 16}
    model = MaskedLanguageModel(vocabulary_size=60, max_epochs=1, progress=False, **sizes)
    return model.fit(["a man runs home", "a dog sleeps here"] * 40)


@cache
def ratings_model(*, attention="none", family="gaussian", direction="bidirectional", parts="auto"):
    """Of movies and the stars that users gave them."""
    network = {"max_epochs": 1, "ensemble": 1, "embed_dim": 8} if attention != "none" else {}
    base = "none" if attention != "none" else "auto"
    order = "rows" if direction == "causal" else None
    chosen = {"attention": attention, "base": base, "direction": direction, "order": order}
    columns = {"group": "user", "item": "movie", "value": "stars", "family": family}
    frame = ratings(whole=family != "gaussian")
    return EFA(**columns, progress=False, parts=parts, **chosen, **network).fit(frame)


def ratings(n_groups=60, seed=0, *, whole=False):
    """Users with a level of their own, three movies of six each; `whole` stars from 1 to 5."""
    random = np.random.default_rng(seed)
    rows = []
    for user in range(n_groups):
        level = random.normal(3.0, 1.0)
        rows += [
            (user, "abcdef"[k], round(level + 0.2 * k + random.normal(0, 0.3), 1))
            for k in random.choice(6, size=3, replace=False)
        ]
    frame = pd.DataFrame(rows, columns=["user", "movie", "stars"])
    return frame.assign(stars=frame["stars"].round().clip(1, 5)) if whole else frame
