"""The same question is answered once, and only what stays true is kept."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from exfam import ExfamError
from exfam.explorer import answers as kept
from exfam.explorer.answers import Answers


class Counting:
    """A view that counts what it computes."""

    name, slow = "counting", ("slow",)

    def __init__(self):
        self.count = 0
        self.questions = {"double": self.double, "first": self.first, "slow": self.double}

    @staticmethod
    def shows(model, data):
        return True

    def start(self):
        return {}

    def double(self, question):
        self.count += 1
        if question["number"] < 0:
            raise ExfamError("`number` must be at least 0.")
        return {"double": 2 * question["number"]}

    def first(self, question):
        self.count += 1
        return {"partial": self.count < 2}


async def several(own, name, bodies):
    return await asyncio.gather(*(own.to(name, body) for body in bodies))


def test_the_same_question_is_answered_once(monkeypatch):
    async def run():
        view = Counting()
        own = Answers([view])
        for name in ("double", "slow"):
            view.count = 0
            together = await several(own, name, [b'{"number": 3}'] * 8)
            assert together == [(200, b'{"double":6}')] * 8 and view.count == 1
            assert await own.to(name, b'{"number": 3}') == together[0] and view.count == 1
        for times in (1, 2):
            refused = await several(own, "double", [b'{"number": -1}'] * 4)
            assert {status for status, _ in refused} == {400} and view.count == 1 + times
        view.count = 0
        parts = [await own.to("first", b"{}") for _ in range(3)]
        assert [content for _, content in parts] == [b'{"partial":true}'] + 2 * [
            b'{"partial":false}'
        ]
        assert view.count == 2
        monkeypatch.setattr(kept, "MOST_KEPT", 30)
        await several(own, "double", [b'{"number": %d}' % k for k in range(9)])
        assert sum(map(len, own._kept.values())) == own._size <= 30 and not own._running

    # In a thread of its own: a browser of other tests may have a loop in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, run()).result()
