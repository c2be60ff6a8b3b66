"""What a catalog's server costs: commits of two tables beside endpoints that do nothing and the disk.

    python tests/benchmarks/catalog.py [SECONDS] [postgresql://…]

Every figure alternates with what it is compared with, so that other load meets both; rates are the best of
several rounds of so many seconds (1). The clients are threads of another process, as lean as Python has them.
"own no-op" is the server's configuration: read, logged and answered in a thread as a commit is. "bare no-op"
is a route of Starlette that returns two bytes, in no thread.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from deltanb.catalog.iceberg.commit import Change
from deltanb.catalog.iceberg.metadata.document import apply
from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.rest.server import serve
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.store import CatalogStore
from deltanb.options import set_options
from tests.catalog.iceberg_tables import NOW, SCHEMA, add, point, set_properties, with_snapshots

ROUNDS = 5
Rates = dict[str, float]


@contextmanager
def nothing() -> Iterator[str]:
    """The URL of a server whose one endpoint does nothing."""

    async def no_op(request: Any) -> Response:
        return Response(b"{}", media_type="application/json")

    app = Starlette(routes=[Route("/", no_op, methods=["GET", "POST"])])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, loop="asyncio"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join()


def bodies(threads: int) -> list[str | None]:
    """The requests of each client: two tables that are its own."""
    return [json.dumps({"table-changes": [
        {"identifier": {"namespace": ["ns"], "name": f"{letter}{number}"}, "requirements": [],
         "updates": [set_properties(x="1")]} for letter in "ab"]}) for number in range(threads)]


def rate(url: str, requests: list[str | None], seconds: float) -> float:
    """Requests a second of as many clients as there are requests, each in a thread of another process."""
    done = subprocess.run(
        [sys.executable, __file__, "client", url, str(seconds)], input=json.dumps(requests), text=True,
        stdout=subprocess.PIPE, check=True)
    return float(done.stdout)


def client(url: str, seconds: float) -> None:
    """Ask again and again, and print how often a second."""
    host, path = url.removeprefix("http://").split("/", 1)
    counts: list[int] = []

    def ask(body: str | None) -> None:
        connection, count, end = HTTPConnection(host), 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            method = "GET" if body is None else "POST"
            connection.request(method, f"/{path}", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            count += 1
        counts.append(count)

    threads = [threading.Thread(target=ask, args=(body,)) for body in json.load(sys.stdin)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(counts) / seconds)


def best(calls: dict[str, Callable[[], float]]) -> Rates:
    """The best of several rounds of each, one after the other in every round."""
    rates: Rates = {}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            rates[name] = max(rates.get(name, 0), call())
    return rates


@contextmanager
def catalog(url: str, folder: Path, durability: str) -> Iterator[str]:
    """The URL to commit at, of a server with two tables for each of four clients."""
    with set_options(durability=durability):
        store = CatalogStore(url, durability)
        store.namespaces.create("ns")
        with serve(store, warehouse=folder / durability) as server:
            for number in range(4):
                for letter in "ab":
                    server.service.tables.create(f"ns.{letter}{number}", SCHEMA)
            yield f"{server.url}/v1/transactions/commit"


def fsyncs(folder: Path, seconds: float) -> float:
    """How often a second the disk takes what a commit of two tables hands it."""
    count, end, data = 0, time.perf_counter() + seconds, b"x" * 2000
    handle = os.open(folder, os.O_RDONLY)
    while time.perf_counter() < end:
        for name in ("a", "b", "log"):
            with open(folder / f"{name}{count}", "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if name != "log":
                os.fsync(handle)
        count += 1
    os.close(handle)
    return count / seconds


def line(what: str, rates: Rates, of: str, to: str) -> None:
    """Print one figure and its ratio."""
    print(f"{what:42} {rates[of]:8.0f} /s  {to:10} {rates[to]:8.0f} /s  ratio 1/{rates[to] / rates[of]:.1f}")


def over_http(folder: Path, seconds: float) -> None:
    """Two-table commits beside an endpoint that does nothing, and beside the disk."""
    for durability in ("none", "sync"):
        url = f"sqlite:///{folder}/{durability}.db"
        with nothing() as no_op, catalog(url, folder, durability) as commit:
            for threads in (1, 4):
                asked, nobody = bodies(threads), [None] * threads
                config = commit.replace("transactions/commit", "config")
                rates = best({
                    "commit": lambda asked=asked: rate(commit, asked, seconds),
                    "own no-op": lambda nobody=nobody, config=config: rate(config, nobody, seconds),
                    "bare no-op": lambda nobody=nobody: rate(no_op, nobody, seconds),
                    "fsyncs": lambda: fsyncs(folder, seconds / 2)})
                what = f"two tables, SQLite, {durability}, {threads} clients"
                line(what, rates, "commit", "own no-op")
                line(what, rates, "commit", "bare no-op")
                if durability == "sync":
                    line(what, rates, "commit", "fsyncs")


def disjoint(url: str, folder: Path, seconds: float) -> None:
    """Four clients with tables of their own beside one, on a database of many writers."""
    with catalog(url, folder, "sync") as commit:
        rates = best({str(threads): lambda threads=threads: rate(commit, bodies(threads), seconds)
                      for threads in (1, 4)})
    print(f"two tables, {url.partition(':')[0]}, sync: 1 client {rates['1']:.0f} /s, "
          f"4 clients {rates['4']:.0f} /s  ratio {rates['4'] / rates['1']:.2f}")


def in_process(folder: Path, count: int = 500) -> None:
    """Metadata of many snapshots: what one more costs, alone and as a commit."""
    base = with_snapshots(count)
    updates = [add(count + 1, count, count + 1), point(count + 1)]
    alone = least(lambda: apply(updates, base, NOW))
    with set_options(durability="none"), CatalogStore(f"sqlite:///{folder}/m.db") as store:
        store.namespaces.create("ns")
        tables = IcebergTables(store, folder / "m")
        made: Any = tables.create("ns.t", SCHEMA)
        place = tables.files.new({**base, "location": made.metadata["location"]}, None)
        tables.files.write(place)
        tables.register("ns.t", place.location, overwrite=True)
        whole = least(lambda: tables.commit([Change(TableName(("ns",), "t"), [], [set_properties(x="1")])]))
        files = least(lambda: tables.files.write(tables.files.new(base | {
            "location": made.metadata["location"]}, None)))
    print(f"{count} snapshots: updates {alone:.2f} ms, file {files:.2f} ms, commit {whole:.2f} ms")


def least(call: Callable[[], object]) -> float:
    """Milliseconds of the quickest of many runs."""
    times = []
    for _ in range(60):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def main(seconds: float, url: str | None) -> None:
    """Print all figures; with the URL of an empty database those of many writers only."""
    with tempfile.TemporaryDirectory() as name:
        if url is not None:
            disjoint(url, Path(name), seconds)
            return
        in_process(Path(name))
        over_http(Path(name), seconds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        client(sys.argv[2], float(sys.argv[3]))
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else 1, sys.argv[2] if len(sys.argv) > 2 else None)
