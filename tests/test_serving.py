"""The example of serving: the answers of a model alone, for 64 clients at a time."""

import asyncio
import http.client
import importlib.util
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from exfam import EFA, Popularity

ROOT = Path(__file__).parents[1]
LABELS = [f"item {number}" for number in range(40)]


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("app", ROOT / "examples/serving/app.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model():
    random = np.random.default_rng(0)
    baskets = [random.choice(LABELS, 5, replace=False).tolist() for _ in range(60)]
    return EFA(
        group="basket", item="item", unknown="error", max_epochs=2, ensemble=1, progress=False
    ).fit(baskets)


def run(coroutine):
    """Its result, from a thread of its own: a browser's driver may leave a loop in this one."""
    with ThreadPoolExecutor(1) as alone:
        return alone.submit(asyncio.run, coroutine).result()


def sent(application, body, *, method="POST", path="/recommend"):
    """Status and JSON of one request, in this process."""
    parts = [body[:7], body[7:]]
    messages = [{"body": part, "more_body": part is not parts[-1]} for part in parts]
    said = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        said.append(message)

    run(application({"type": "http", "method": method, "path": path}, receive, send))
    return said[0]["status"], json.loads(said[1]["body"])


def alone(model, items, k):
    found = model.recommend(items, k=k)
    return {"items": found.items[0].tolist(), "probabilities": found.probabilities[0].tolist()}


def test_answers_are_those_of_the_model(example, model):
    application = example.Recommender(model)
    body = json.dumps({"items": LABELS[:2], "k": 4}).encode()
    assert sent(application, body) == (200, alone(model, LABELS[:2], 4))
    assert sent(application, b'{"items": []}') == (200, alone(model, [], 10))


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"milk tea", 400, "must be JSON such as"),
        (b'["milk"]', 400, "must be JSON such as"),
        (b'{"basket": 1}', 400, "must be JSON such as"),
        (b'{"items": "milk"}', 422, "labels in a list"),
        (b'{"items": [["a"], ["b"]]}', 422, "labels in a list"),
        (b'{"items": ["cocoa"]}', 422, "`item` must be in the vocabulary"),
        (b'{"items": ["item 1"], "k": 0}', 422, "`k` must be"),
        (b" " * 200_000, 413, "at most"),
    ],
)
def test_a_bad_request_gets_a_clear_answer(example, model, body, status, error):
    got, answer = sent(example.Recommender(model), body)
    assert got == status and error in answer["error"]


def test_other_addresses_are_not_found(example, model):
    application = example.Recommender(model)
    assert sent(application, b"{}", method="GET")[0] == 404
    assert sent(application, b"{}", path="/")[0] == 404
    with pytest.raises(ValueError, match="`scope` must be of HTTP, got 'websocket'"):
        run(application({"type": "websocket"}, None, None))


def test_the_model_that_the_environment_names(example, tmp_path, monkeypatch):
    Popularity(group="basket", item="item").fit([["milk", "tea"], ["milk"]]).save(tmp_path / "m")
    monkeypatch.setenv("EXFAM_MODEL", str(tmp_path / "m"))
    assert sent(example.application(), b'{"items": [], "k": 1}')[1]["items"] == ["milk"]


@pytest.fixture
def address(example, model):
    uvicorn = pytest.importorskip("uvicorn", reason="uvicorn comes with the extra `explore`")
    settings = uvicorn.Config(example.Recommender(model), port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    yield server.servers[0].sockets[0].getsockname()
    server.should_exit = True
    thread.join()


def test_64_clients_at_a_time_get_what_one_gets(model, address):
    random = np.random.default_rng(1)
    baskets = [random.choice(LABELS, number % 6, replace=False).tolist() for number in range(64)]
    expected = [alone(model, basket, 5) for basket in baskets]
    together = threading.Barrier(64)

    def client(basket):
        connection = http.client.HTTPConnection(*address, timeout=60)
        together.wait(60)
        answers = []
        for _ in range(4):
            connection.request("POST", "/recommend", json.dumps({"items": basket, "k": 5}))
            answers.append(json.loads(connection.getresponse().read()))
        connection.close()
        return answers

    with ThreadPoolExecutor(64) as clients:
        found = list(clients.map(client, baskets))
    assert found == [[answer] * 4 for answer in expected]


def test_the_guide_shows_the_example():
    page = (ROOT / "docs/guide/serving.md").read_text(encoding="utf-8")
    code = (ROOT / "examples/serving/app.py").read_text(encoding="utf-8")
    assert code[code.index("Receive =") : code.index("def application")].rstrip() in page
