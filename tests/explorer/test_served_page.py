"""The server: for this machine alone, one token, bounded questions, right answers to many."""

import json
import socket
import subprocess
import sys
import threading
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

import exfam.explorer.serve as serve
from exfam import ExfamError, SkipGram, explore
from exfam.explorer.application import HEADERS, MOST_BYTES
from explorer.explored import baskets, fetched, items_model, posted, table_model


@pytest.fixture(scope="module")
def page():
    with explore(items_model(), baskets(), open_browser=False) as page:
        yield page


def test_the_page_is_on_the_loopback_under_a_token(page):
    parts = urlsplit(page.address)
    assert parts.hostname == "127.0.0.1" and len(parts.path) > 30
    status, text = fetched(page.address)
    assert status == 200 and "<title>exfam explore</title>" in text
    root = f"http://{parts.netloc}"
    for wrong in (
        "/",
        "/start",
        "/wrong/",
        "/wrong/start",
        parts.path[:-3] + "/",
        "//" + parts.path,
    ):
        assert fetched(root + wrong)[0] == 404, wrong
    with explore(items_model(), open_browser=False) as other:
        assert urlsplit(other.address).path != parts.path


def test_every_answer_forbids_what_the_page_does_not_need(page):
    import urllib.request

    for address in (page.address, page.address + "page.js", page.address + "start"):
        with urllib.request.urlopen(address) as response:
            assert {name: response.headers[name] for name in HEADERS} == HEADERS
            assert "unsafe" not in response.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 400),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 400),
    ],
)
def test_other_sites_and_forms_are_refused(page, headers, status):
    assert posted(page, "next", {"items": []}, **headers)[0] == status


def test_the_page_itself_may_ask_by_either_name(page):
    host = urlsplit(page.address).netloc
    for name in (host, host.replace("127.0.0.1", "localhost")):
        answer = posted(page, "next", {"items": [0]}, Host=name, Origin=f"http://{name}")
        assert answer[0] == 200 and answer[1]["items"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"{", "A question must be JSON, got something else"),
        (b"[1]", "A question must be an object of JSON"),
        (b"[" * 100_000, "A question must be JSON, got something else"),
        (b" " * (MOST_BYTES + 1), "A question must have at most 200,000 bytes"),
        (b'{"items": [99]}', "`items` must be a list of codes"),
    ],
)
def test_bad_questions_are_answered_by_what_is_wrong(page, body, error):
    status, answer = posted(page, "next", body)
    assert status == 400 and error in answer["error"]


def test_there_are_no_other_questions_or_files(page):
    assert posted(page, "fit", {})[0] == 404
    for name in ("nothing.js", "..%2fserve.py", "%2e%2e/serve.py", "page.html%00", "__init__.py"):
        assert fetched(page.address + name)[0] == 404, name
    assert fetched(page.address + "ask/next")[0] == 405


def test_many_at_once_get_the_answers_of_one_alone(page):
    questions = [{"items": [k % 8, (k * 3) % 8], "k": 4} for k in range(24)]
    alone = [posted(page, "next", question) for question in questions]
    with ThreadPoolExecutor(12) as pool:
        together = list(pool.map(lambda q: posted(page, "next", q), questions * 4))
    assert together == alone * 4


def test_it_ends_and_frees_its_port_and_opens_the_browser_where_it_is_wanted(monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    page = explore(table_model())
    assert opened == [page.address] and repr(page) == f"Explorer at {page.address}"
    waiting = threading.Thread(target=page.wait)
    waiting.start()
    page.stop()
    page.stop()
    waiting.join(10)
    assert not waiting.is_alive()
    port = urlsplit(page.address).port
    with explore(table_model(), port=port, open_browser=False) as again:
        assert urlsplit(again.address).port == port


def test_small_answers_do_not_wait_for_more(page):
    (server,) = page._server.servers
    assert [own.proto for own in server.sockets] == [socket.IPPROTO_TCP]


def test_what_cannot_be_served_is_refused(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ExfamError, match=f"`port` must be free on this machine, got {port}"):
            explore(items_model(), port=port, open_browser=False)
    with pytest.raises(ExfamError, match=r"`port` must be a whole number, 0 \.\. 65535, got '1'"):
        explore(items_model(), port="1", open_browser=False)
    with pytest.raises(
        ExfamError, match="`model` must be one of groups, tables, fields or words to be explored"
    ):
        explore(SkipGram(), open_browser=False)
    with pytest.raises(ExfamError, match="got str. Load it first: exfam.load"):
        explore("model", open_browser=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ExfamError, match="`explore` needs the packages starlette and uvicorn"):
        explore(items_model(), open_browser=False)


def test_the_command_says_where_the_page_is_and_ends_by_ctrl_c(tmp_path, monkeypatch, capsys):
    from exfam.cli import main

    items_model().save(tmp_path / "model")
    baskets().to_csv(tmp_path / "baskets.csv", index=False)
    seen = []

    def interrupted(page):
        seen.append(fetched(page.address + "start"))
        page.stop()

    monkeypatch.setattr(serve.Explorer, "wait", interrupted)
    words = [str(tmp_path / "model"), str(tmp_path / "baskets.csv"), "--browser", "no"]
    words += ["--against", words[0], "--compare", words[1]]
    assert main(["explore", *words]) == 0
    ((status, start),) = seen
    assert status == 200 and start["n_groups"] == 60 and start["views"][-1] == "errors"
    result = capsys.readouterr()
    assert result.out.startswith("http://127.0.0.1:") and "until Ctrl-C" in result.err
    assert main(["explore", words[0], "--port", "99999"]) == 2
    assert "`--port` must be a whole number" in capsys.readouterr().err


def test_ctrl_c_ends_it():
    code = """
import _thread, threading
from exfam import explore
from explorer.explored import items_model
page = explore(items_model(), open_browser=False)
threading.Timer(0.5, _thread.interrupt_main).start()
page.wait()
print([thread.name for thread in threading.enumerate() if thread.name != "MainThread"])
"""
    paths = json.dumps(sys.path)
    code = f"import sys; sys.path[:] = {paths}{code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() in ("[]", "['Thread-1']"), done.stderr
