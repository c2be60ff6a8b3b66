"""What one PostgreSQL database carries as a catalog: the processor's time of its server for each request.

    python -m tests.benchmarks carries [--quick] [--rounds N] [--only TEXT]

The server's own time is counted, not the client's, so whatever else the machine does changes little. What a
core carries a second is a second divided by it. Each figure is measured with few tables in the catalog, and
with many (2,000): their ratio is how much a request costs more because of tables that it does not ask for.
pytest never collects this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psutil

import deltanb as dn
from tests.benchmarks.catalog_tables import committing, place, together
from tests.benchmarks.figures import Figure, attempt
from tests.catalog.postgresql import NoServer, running

SUITE = "carries"
FEW, MANY, QUICK_MANY = 10, 2000, 20
TIMES, QUICK_TIMES = 350, 5
"""How often each request is made in a round."""
GOALS = {"a commit": 1.5, "a commit of two tables": 2.0, "a look for newer versions": 1.5,
         "a table by its name": 1.5, "the names of all tables": None}
"""What each may cost with many tables, as a multiple of its cost with few; a list of names has to grow."""
TICK = 0.01
"""Seconds by which a process' time is counted: what took less is taken for one."""


def server_seconds(catalog: dn.Catalog) -> float:
    """Of the processor, that the server's processes have had until now."""
    backend = catalog.store.database.read(lambda connection: connection.exec_driver_sql(
        "SELECT pg_backend_pid()").scalar_one())
    postmaster = psutil.Process(backend).parent()
    assert postmaster is not None
    return sum(sum(process.cpu_times()[:2]) for process in (postmaster, *postmaster.children()))


def milliseconds(catalog: dn.Catalog, work: Callable[[], Any], times: int) -> float:
    """Of the server's processor, for each run of the work."""
    work()
    before = server_seconds(catalog)
    for _ in range(times):
        work()
    return 1000 * max(TICK, server_seconds(catalog) - before) / times


def works(catalog: dn.Catalog) -> dict[str, Callable[[], Any]]:
    """What writers and readers ask a catalog for."""
    return {"a commit": committing(catalog.table("bench.t0").log),
            "a commit of two tables": together(catalog, ["bench.t3", "bench.t4"]),
            "a look for newer versions": catalog.table("bench.t2").log.update,
            "a table by its name": lambda: catalog.table("bench.t5"),
            "the names of all tables": lambda: catalog.list_tables("bench")}


def figures(quick: bool = False, rounds: int = 3, only: str = "") -> Iterator[Figure]:
    """The figures, when all of them are measured."""
    if any(only in work for work in GOALS):
        yield from attempt(SUITE, "requests to PostgreSQL", partial(
            measured, QUICK_MANY if quick else MANY, QUICK_TIMES if quick else TIMES * rounds, only))


def measured(many: int, times: int, only: str) -> Iterator[Figure]:
    """Each request with few tables, and with many."""
    took: dict[str, list[float]] = {}
    try:
        with running() as url, place(url) as (catalog, folder):
            for number in range(FEW):
                catalog.create_table(f"bench.t{number}", "id long")
            for tables in (FEW, many):
                for number in range(FEW, tables):  # nobody asks for these: they have no files
                    catalog.store.tables.register_delta(f"bench.t{number}", f"{folder}/t{number}", 0)
                for name, work in works(catalog).items():
                    if only in name:
                        took.setdefault(name, []).append(milliseconds(catalog, work, times))
    except NoServer as why:
        yield Figure(SUITE, "requests to PostgreSQL", f"{FEW} tables", float("nan"), note=str(why))
        return
    for name, (few, more) in took.items():
        note = f"{more:.2f} / {few:.2f} ms of the server, {1000 / more:,.0f} a second for each core"
        yield Figure(SUITE, f"{name}, {many:,} tables", f"{FEW} tables", more / few, GOALS[name],
                     at_most=True, note=note)
