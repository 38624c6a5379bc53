"""The example of serving under load: 64 clients, 10,000 requests, and the server's memory.

    python benchmarks/serving.py
    python benchmarks/serving.py --out benchmarks/results/serving.json

The server is a process of its own: `examples/serving/app.py` under uvicorn, one thread of torch in
each of two threads of requests. Clients are in this process, each with one connection that stays.
Every answer is compared with the model's own. Memory is what the system counts as resident in the
server after each fifth of the requests. Seconds are by the clock, of a machine that clients and
server share; CPU is the server's.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import psutil
from kept import write_kept
from rich.console import Console
from rich.table import Table

import exfam
from exfam import EFA

ROOT = Path(__file__).parents[1]
LENGTH, K, PARTS = 8, 10, 5

console = Console(highlight=False, width=110)


def model_of(n_items: int, folder: Path) -> tuple[list[list[str]], list[dict]]:
    """Save a model; requests, and what it says of them."""
    random = np.random.default_rng(0)
    labels = [f"item{number:06d}" for number in range(n_items)]
    baskets = [
        [labels[i] for i in random.choice(n_items, LENGTH, replace=False)] for _ in range(400)
    ]
    model = EFA(group="basket", item="item", attention="none", progress=False, unknown="error")
    model.fit([labels, *baskets]).save(folder)
    model = exfam.load(folder)
    found = [model.recommend(basket, k=K) for basket in baskets]
    return baskets, [
        {"items": each.items[0].tolist(), "probabilities": each.probabilities[0].tolist()}
        for each in found
    ]


async def client(port: int, work: "asyncio.Queue[int]", baskets: list, expected: list) -> list:
    """Milliseconds of its requests."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    spent = []
    while not work.empty():
        number = work.get_nowait() % len(baskets)
        body = json.dumps({"items": baskets[number], "k": K}).encode()
        head = f"POST /recommend HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        start = time.perf_counter()
        writer.write(head.encode() + body)
        said = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        if "chunked" in said:
            body = b""
            while size := int(await reader.readline(), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readline()
        else:
            size = int(said.partition("content-length: ")[2].partition("\r\n")[0])
            body = await reader.readexactly(size)
        spent.append(1e3 * (time.perf_counter() - start))
        assert json.loads(body) == expected[number]
    writer.close()
    return spent


async def load(port: int, n: int, clients: int, baskets: list, expected: list) -> list:
    work: asyncio.Queue[int] = asyncio.Queue()
    for number in range(n):
        work.put_nowait(number)
    all_of = [client(port, work, baskets, expected) for _ in range(clients)]
    return [each for part in await asyncio.gather(*all_of) for each in part]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port: int) -> None:
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)


def measure(arguments: argparse.Namespace, n_items: int, folder: Path) -> list[dict]:
    baskets, expected = model_of(n_items, folder)
    port = free_port()
    command = ["uvicorn", "--app-dir", str(ROOT / "examples/serving"), "--factory"]
    command += ["app:application", "--port", str(port), "--log-level", "error"]
    environment = {**os.environ, "EXFAM_MODEL": str(folder)}
    server = subprocess.Popen([sys.executable, "-m", *command], env=environment)
    rows = []
    try:
        wait_for(port)
        process = psutil.Process(server.pid)
        asyncio.run(load(port, 256, arguments.clients, baskets, expected))
        for part in range(PARTS):
            before, start = process.cpu_times(), time.perf_counter()
            n = arguments.requests // PARTS
            spent = asyncio.run(load(port, n, arguments.clients, baskets, expected))
            seconds, after = time.perf_counter() - start, process.cpu_times()
            cpu = after.user + after.system - before.user - before.system
            rows.append(
                {
                    "items": n_items,
                    "requests": (part + 1) * n,
                    "MB": round(process.memory_info().rss / 2**20, 1),
                    "a second": round(n / seconds),
                    "p50 ms": round(float(np.median(spent)), 2),
                    "p99 ms": round(float(np.quantile(spent, 0.99)), 2),
                    "server CPU ms": round(1e3 * cpu / n, 3),
                }
            )
    finally:
        server.terminate()
        server.wait()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, nargs="+", default=[1_000, 20_000])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--out", type=Path, help="where to keep the figures")
    arguments = parser.parse_args()
    rows = []
    for n_items in arguments.items:
        with tempfile.TemporaryDirectory() as folder:
            rows += measure(arguments, n_items, Path(folder) / "model")
    table = Table(title=f"{arguments.clients} clients; every answer is the model's own")
    for name in rows[0]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(f"{value:,}" for value in row.values()))
    console.print(table)
    if arguments.out:
        write_kept(arguments.out, rows, what=f"{arguments.clients} clients at a time")


if __name__ == "__main__":
    main()
