"""What one PostgreSQL database carries as a catalog: the processor's time of its server for each request.

    python -m tests.benchmarks.carries [--tables N] [--rounds N]

The server's own time is counted, not the client's, so whatever else the machine does changes little. What a
core carries a second is a second divided by it. Each figure is measured with few tables in the catalog, and
with many (2,000): the difference is the slope. pytest never collects this file.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import psutil

import deltanb as dn
from tests.benchmarks.catalog_tables import committing, place
from tests.catalog.postgresql import running

FEW = 10


def server_seconds(catalog: dn.Catalog) -> float:
    """Of the processor, that the server's processes have had until now."""
    backend = catalog.store.database.read(lambda connection: connection.exec_driver_sql(
        "SELECT pg_backend_pid()").scalar_one())
    postmaster = psutil.Process(backend).parent()
    assert postmaster is not None
    return sum(sum(process.cpu_times()[:2]) for process in (postmaster, *postmaster.children()))


def milliseconds(catalog: dn.Catalog, work: Callable[[], Any], rounds: int) -> float:
    """Of the server's processor, for each run of the work."""
    work()
    before = server_seconds(catalog)
    for _ in range(rounds):
        work()
    return 1000 * (server_seconds(catalog) - before) / rounds


def works(catalog: dn.Catalog) -> dict[str, Callable[[], Any]]:
    """What writers and readers ask a catalog for."""
    reader = catalog.table("bench.t2").log

    def both() -> None:
        with catalog.transaction() as txn:
            for name in ("bench.t3", "bench.t4"):
                committing(txn.table(name).staged)()

    return {"a commit": committing(catalog.table("bench.t0").log), "a commit of two tables": both,
            "a look for newer versions": reader.update,
            "a table by its name": lambda: catalog.table("bench.t5"),
            "the names of all tables": lambda: catalog.list_tables("bench")}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tables", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=1000)
    asked = parser.parse_args()
    with running() as url, place(url) as (catalog, _):
        measured: dict[str, list[float]] = {}
        made = 0
        for tables in (FEW, asked.tables):
            while made < tables:
                catalog.create_table(f"bench.t{made}", "id long")
                made += 1
            for name, work in works(catalog).items():
                measured.setdefault(name, []).append(milliseconds(catalog, work, asked.rounds))
        for name, (few, many) in measured.items():
            print(f"{name:26} {few:6.2f} ms of the server with {FEW} tables, {many:6.2f} with "
                  f"{asked.tables:,}: {1000 / many:7.0f} a second for each core")


if __name__ == "__main__":
    main()
