"""Writers and invariants that are wrong: each is refused by name, or bounded, and harms nobody."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

import deltanb as dn
from deltanb.errors import DeltaError, IllegalStateError, InvalidArgument
from deltanb.observe.explore import programs
from deltanb.store.open import store_for
from deltanb.testing import MemoryStore
from tests.patience import PATIENCE

ROWS = {"id": [1, 2], "n": [10, 20]}
NUMBERS = count()
POOL = ThreadPoolExecutor(1)
Work = Callable[[Any], Any]


def add(t: Any) -> Any:
    return t.append({"id": [9], "n": [9]})


def withdraw(t: Any) -> None:
    balance = t.to_arrow(where="id = 1")["n"][0].as_py()
    t.update({"n": str(balance - 6)}, "id = 1")


def account() -> dn.DeltaTable:
    return dn.create(MemoryStore(), ROWS)


def after(*doing: Callable[[], Any]) -> Work:
    """Something beside the table, and a commit then."""
    def work(t: Any) -> None:
        for do in doing:
            do()
        add(t)

    return work


async def asleep(t: Any) -> None:
    await asyncio.sleep(3600)
    add(t)


def generated(t: Any) -> Iterator[Any]:
    yield add(t)


def in_a_thread(t: Any) -> None:
    thread = threading.Thread(target=add, args=(t,))
    thread.start()
    thread.join()


def in_a_pool(t: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(add, t).result()


def in_a_process(method: str) -> Work:
    def work(t: Any) -> None:
        process: Any = multiprocessing.get_context(method).Process(target=print)  # type: ignore[attr-defined]
        process.start()
        process.join()

    return work


def forked(t: Any) -> None:
    if os.fork() == 0:
        os._exit(0)


def endless(t: Any) -> None:
    while True:
        add(t)


def stubborn(t: Any) -> None:
    while True:
        with suppress(Exception):
            add(t)


def looping(t: Any) -> None:
    while True:
        pass


def waiting(t: Any) -> None:
    threading.Event().wait()


THREAD, PROCESS = "starts a thread, which could take turns of", "starts a process, which could take turns"
ANOTHER = "by a handle of its own; it may only write by what it is called with"
CHANCE = "did something else when it was run again and saw the same: it depends on more than the table"
LONG = "has not come to its next turn in 0 s: it loops, sleeps, or waits"

REFUSED: dict[str, dict[str, tuple[Work, str]]] = {
    "only begun": {
        "a coroutine": (lambda t: asleep(t), r"returns a coroutine, which nobody runs.*asyncio\.run"),
        "a generator": (lambda t: generated(t), "returns a generator, which nobody runs")},
    "threads": {
        "started": (in_a_thread, THREAD), "of a pool": (in_a_pool, THREAD),
        "a timer": (after(lambda: threading.Timer(0, print).start()), THREAD),
        "in another call": (lambda t: dn.retry(lambda: in_a_thread(t)), THREAD),
        "that was there": (lambda t: POOL.submit(add, t).result(), "uses its table in a thread")},
    "processes": {
        "a program": (after(lambda: subprocess.run(["true"], check=True)), PROCESS),
        "a shell": (after(lambda: os.system("true")), PROCESS),
        "a fork": (forked, PROCESS), **{
            f"of Python, by {method}": (in_a_process(method), PROCESS)
            for method in multiprocessing.get_all_start_methods()}},
    "the clock": {
        "in what is written": (lambda t: t.append({"id": [time.time_ns()], "n": [9]}), CHANCE),
        "in what is done": (lambda t: add(t) if next(NUMBERS) % 2 else t.delete("id = 1"), CHANCE)},
    "chance": {
        "an id": (lambda t: t.append({"id": [uuid.uuid4().int >> 66], "n": [9]}), CHANCE),
        "bytes": (lambda t: t.append({"id": [int.from_bytes(os.urandom(6), "big")], "n": [9]}), CHANCE),
        "a generator": (lambda t: t.append({"id": [random.Random().randrange(10**9)], "n": [9]}), CHANCE),
        "a variable": (lambda t: t.append({"id": [next(NUMBERS)], "n": [9]}), CHANCE)},
    "no end": {
        "of commits": (endless, "has taken 200 turns and has not ended"),
        "that catches all errors": (stubborn, "has taken 200 turns and has not ended"),
        "of nothing": (looping, LONG), "of a wait": (waiting, LONG)},
}
"""By what is wrong: writers that are refused, and the words for it."""


@pytest.mark.parametrize(("kind", "case"), [(kind, case) for kind in REFUSED for case in REFUSED[kind]])
def test_a_writer_is_refused_by_name(kind: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work, words = REFUSED[kind][case]
    POOL.submit(int).result()
    if words is LONG:
        monkeypatch.setattr(programs, "PATIENCE", 0.01)
    with pytest.raises(IllegalStateError, match=f"writer 'ann' .*{words}"):
        dn.explore(account(), {"ann": work, "ben": withdraw})
    assert time.sleep.__module__ == "time" and threading.Thread.start.__module__ == "threading"


class Elsewhere(NamedTuple):
    """A place beside what is explored: another table, where there is none yet, and all that is stored."""

    open: Callable[[], dn.DeltaTable]
    new: Any
    content: Callable[[], Any]
    settings: Mapping[str, Any] = MappingProxyType({})
    name: str = "other"


def in_a_folder(path: Path, request: pytest.FixtureRequest) -> Elsewhere:
    dn.create(path / "other", ROWS).delete("id = 1")
    return Elsewhere(lambda: dn.open(path / "other"), path / "new", lambda: {
        file: file.read_bytes() for file in path.rglob("*") if file.is_file()}, name=f"delta.`{path}/other`")


def in_a_bucket(path: Path, request: pytest.FixtureRequest) -> Elsewhere:
    uri, options = request.getfixturevalue("bucket"), request.getfixturevalue("s3_server").options
    dn.create(f"{uri}/other", ROWS, storage_options=options).delete("id = 1")
    return Elsewhere(
        lambda: dn.open(f"{uri}/other", storage_options=options), f"{uri}/new",
        lambda: list(store_for(uri, options).list_all("")), {"storage_options": options})


def in_memory(path: Path, request: pytest.FixtureRequest) -> Elsewhere:
    store, new = MemoryStore(), MemoryStore()
    dn.create(store, ROWS).delete("id = 1")
    return Elsewhere(
        lambda: dn.DeltaTable(dn.DeltaLog(store)), new, lambda: (dict(store.files), dict(new.files)))


def by_sql(place: Elsewhere) -> Any:
    other = place.open()
    return other, dn.sql(f"DELETE FROM {place.name}")


PLACES = [in_a_folder, in_a_bucket, in_memory]
BESIDE: dict[str, Callable[[Elsewhere], Any]] = {
    "append": lambda place: place.open().append({"id": [2], "n": [2]}),
    "create": lambda place: dn.create(place.new, ROWS, **place.settings),
    "vacuum": lambda place: place.open().vacuum(),
    "statement": lambda place: place.open().transaction().__enter__().append({"id": [2], "n": [2]}),
    "files": lambda place: place.open().start_transaction().write_files({"id": [2], "n": [2]}),
    "manifests": lambda place: place.open().generate("symlink_format_manifest"),
    "SQL": by_sql,
}
"""What writers and invariants may try to do to another table."""


@pytest.mark.parametrize("what", BESIDE)
@pytest.mark.parametrize("where", PLACES)
def test_another_table_stays_as_it_is(
    what: str, where: Callable[..., Elsewhere], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = where(tmp_path, request)
    before = place.content()
    for writer, invariant, words in (
            (after(lambda: BESIDE[what](place)), None, f"writer 'ann' .*{ANOTHER}"),
            (add, lambda t: BESIDE[what](place), "the invariant writes to .*; it may only read.")):
        with pytest.raises(IllegalStateError, match=words):
            dn.explore(account(), {"ann": writer, "ben": withdraw}, invariant)
    assert place.content() == before


def test_another_table_may_be_read(tmp_path: Path) -> None:
    rates = dn.create(tmp_path / "rates", {"id": [1]})
    explored = dn.explore(account(), {"ann": after(lambda: dn.open(tmp_path / "rates").count()),
                                      "ben": after(rates.to_arrow)})
    assert [one.committed for one in explored.outcomes] == [("ann", "ben")]


IN_A_CATALOG: dict[str, Callable[[dn.Catalog], Any]] = {
    "create": lambda catalog: catalog.create_table("ns.new", {"id": [1]}),
    "rename": lambda catalog: catalog.rename_table("ns.a", "ns.b"),
    "drop": lambda catalog: catalog.drop_table("ns.a"),
    "namespace": lambda catalog: catalog.create_namespace("new"),
    "append": lambda catalog: catalog.table("ns.a").append({"id": [2]}),
    "Iceberg": lambda catalog: catalog.table("ns.ice").append({"id": [2]}),
}
"""What writers and invariants may try to do to a catalog beside their transaction."""


@pytest.fixture(params=["in the process", "behind a server"])
def catalog(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[dn.Catalog]:
    pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")
    pytest.importorskip("pyiceberg")
    made = dn.Catalog(f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path / "lake")
    made.create_namespace("ns")
    made.create_table("ns.a", {"id": [1]})
    made.create_table("ns.ice", {"id": [1]}, format="iceberg")
    if request.param == "in the process":
        yield made
        return
    pytest.importorskip("uvicorn")
    with made.serve() as server, dn.connect(server.url) as remote:
        yield remote


@pytest.mark.parametrize("what", IN_A_CATALOG)
def test_a_catalog_stays_as_it_is(what: str, catalog: dn.Catalog) -> None:
    before = catalog.store.instant(), catalog.list_namespaces()

    def beside(_: Any) -> Any:
        return IN_A_CATALOG[what](catalog)

    def own(txn: Any) -> Any:
        return txn.table("ns.a").append({"id": [3]})

    for target, writer, invariant, words in (
            (account(), beside, None, f"writer 'ann' .*{ANOTHER}"),
            (catalog, beside, None, f"writer 'ann' .*{ANOTHER}"),
            (catalog, own, beside, "the invariant writes to .*; it may only read")):
        with pytest.raises(IllegalStateError, match=words):
            dn.explore(target, {"ann": writer}, invariant)
    assert (catalog.store.instant(), catalog.list_namespaces()) == before


USES_ICEBERG = r"uses ns\.ice, which is an Iceberg table; Delta tables alone are explored: leave it out"


def test_iceberg_tables_are_refused_by_name(catalog: dn.Catalog) -> None:
    for work in (lambda txn: txn.table("ns.ice").append({"id": [2]}),
                 lambda txn: txn.table("ns.ice").to_arrow()):
        with pytest.raises(IllegalStateError, match=f"writer 'ann' {USES_ICEBERG}"):
            dn.explore(catalog, {"ann": work})
    for invariant in (lambda tables: tables.table("ns.ice").to_arrow(), "SELECT count(*) = 1 FROM ns.ice"):
        with pytest.raises(IllegalStateError, match=f"the invariant {USES_ICEBERG}"):
            dn.explore(catalog, {"ann": lambda txn: txn.table("ns.a").append({"id": [2]})}, invariant)


# -- what is bounded -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sleep", [
    lambda t: after(lambda: time.sleep(3600))(t), lambda t: asyncio.run(asleep(t)),
    lambda t: dn.retry(lambda: after(lambda: time.sleep(3600))(t), pause=3600)])
def test_sleeping_takes_no_time(sleep: Work) -> None:
    """The suite has no hours: that it ends is the test."""
    explored = dn.explore(account(), {"ann": sleep, "ben": lambda t: t.update({"n": "n + 1"})})
    assert "ann" in explored.outcomes[0].committed


@pytest.mark.parametrize("work", [lambda t: None, lambda t: t.count(), lambda t: t.start_transaction()])
def test_a_writer_that_never_commits_has_nothing_to_fail_with(work: Work) -> None:
    explored = dn.explore(account(), {"ann": work, "ben": withdraw})
    assert {(one.committed, str(one.failed)) for one in explored.outcomes} == {(("ben",), "{}")}
    assert str(dn.explore(account(), {"ann": work}).outcomes[0]) == "nobody committed anything"


def test_random_numbers_are_the_same_at_every_run() -> None:
    numpy = pytest.importorskip("numpy")

    def work(t: Any) -> None:
        t.append({"id": [random.randrange(10**9)], "n": [int(numpy.random.randint(10**9))]})

    before = random.getstate(), str(numpy.random.get_state())
    one, other = (dn.explore(account(), {"ann": work, "ben": withdraw}, seed=seed) for seed in (1, 2))
    assert (random.getstate(), str(numpy.random.get_state())) == before
    assert one.num_orders == other.num_orders == 10
    assert one.outcomes[0].rows != other.outcomes[0].rows


def test_they_are_when_a_writer_is_the_first_to_draw_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy loads its generators when somebody first asks for one."""
    numpy = pytest.importorskip("numpy")
    monkeypatch.setattr(numpy, "random", numpy.random)  # as it was, once the test is over
    monkeypatch.delitem(sys.modules, "numpy.random")

    def draw(t: Any) -> None:
        t.append({"id": [int(numpy.random.randint(10**9))], "n": [9]})

    assert dn.explore(account(), [draw]).num_orders == 1


def test_an_interrupt_as_a_run_begins_leaves_nothing_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = random.getstate()
    monkeypatch.setattr(random, "seed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        dn.explore(account(), [withdraw])
    assert time.sleep.__module__ == "time" and threading.Thread.start.__module__ == "threading"
    assert random.getstate() == before


def test_other_threads_sleep_and_start_threads_meanwhile() -> None:
    """What is replaced while writers run is so for them alone."""
    started: list[bool] = []

    def elsewhere() -> None:
        time.sleep(0)
        thread = threading.Thread(target=lambda: started.append(True))
        thread.start()
        thread.join()

    POOL.submit(int).result()
    dn.explore(account(), {"ann": lambda t: POOL.submit(elsewhere).result()})
    assert started and set(started) == {True}


INVARIANTS: dict[str, tuple[Any, type[DeltaError], str]] = {
    "writes to its table": (lambda t: t.delete("id = 1"), IllegalStateError, "read only"),
    "fails": (lambda t: {}["x"], InvalidArgument, "fails with KeyError: 'x'"),
    "is silent": (lambda t: None, InvalidArgument, "neither true nor false"),
}


@pytest.mark.parametrize("case", INVARIANTS)
def test_an_invariant_is_refused_by_name(case: str) -> None:
    invariant, kind, words = INVARIANTS[case]
    table = account()
    with pytest.raises(kind, match=words):
        dn.explore(table, [withdraw], invariant)
    assert table.version == 0


def test_an_invariant_may_assert() -> None:
    def not_overdrawn(t: Any) -> bool:
        assert t.count("n < 0") == 0, "it is overdrawn"
        return True

    broken, *_ = dn.explore(account(), {"ann": withdraw, "ben": withdraw}, not_overdrawn).violations
    assert str(broken.answer).startswith("it is overdrawn")


def test_a_writer_that_waits_for_ever_is_left_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython up to 3.11 loops where a profiler meets an exception that waits for another thread."""
    monkeypatch.setattr(programs, "PATIENCE", 0.01)
    with pytest.raises(IllegalStateError, match=LONG):
        dn.explore(account(), [waiting])

    def profiled() -> None:
        sys.setprofile(lambda *_: None)
        sorted([3, 1, 2], key=lambda one: -one)
        sys.setprofile(None)

    thread = threading.Thread(target=profiled, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
