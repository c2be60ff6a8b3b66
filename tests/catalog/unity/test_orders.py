"""Two writers and a publisher of a managed table, in the orders in which their requests and files can meet.

Real clients, in threads of which one runs at a time (``observe/turns``): each stops before a request to the
server and before a file of the log is written, and a scheduler says who goes on. What is explored are all
orders with at most so many preemptions (Musuvathi and Qadeer, "Iterative Context Bounding", PLDI 2007): a
writer is left in the middle that often, and else goes on until it ends. ``--thorough`` runs all of them, a
usual run a part.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")
pytest.importorskip("httpx")

import deltanb as dn
from deltanb import errors
from deltanb.catalog.delta.managed import commit_info_of
from deltanb.log.commits import STAGED_FOLDER
from deltanb.observe.turns import Runner
from deltanb.store.local import LocalStore
from tests.catalog.unity.clients import catalog_of, publishing_nothing
from tests.catalog.unity.fake import Unity
from tests.catalog.unity.fake_faults import LOST_ANSWER, LOST_REQUEST, Answer, Asked, Does, Serve, play
from tests.helpers import ids

Work = Callable[[], Any]
PREEMPTIONS, SAMPLE = 2, 5
WATCHED_EACH = 3
MOST_STEPS = 200


class Scheduler:
    """Writers that take turns, in an order: who goes on at each stop."""

    def __init__(self, works: Sequence[Work], switches: Sequence[tuple[int, int]]) -> None:
        self.switches = dict(switches)
        self.runners = [Runner(str(at), work, lambda txn, step: None) for at, work in enumerate(works)]
        self.stops = 0
        self.watch: Callable[[], None] = lambda: None
        """Called between two turns, while nobody runs."""
        self.trace: list[tuple[str, str]] = []

    @property
    def outcomes(self) -> list[Any]:
        """The errors that they ended with; None where they ended with none."""
        return [runner.outcome for runner in self.runners]

    def run(self) -> None:
        """Until all have ended. Whoever runs goes on, but at a switch: (stop, how many further on)."""
        current = self.runners[0]
        while able := [runner for runner in self.runners if not runner.done]:
            place = able.index(current) if current in able else 0
            current = able[(place + self.switches.get(self.stops, 0)) % len(able)]
            current.advance()
            self.stops += 1
            assert self.stops < MOST_STEPS
            if self.stops % WATCHED_EACH == 0:
                self.watch()

    def stop(self, where: str) -> None:
        """Wait for its turn, if it is one of the writers' threads."""
        here = threading.current_thread()
        for runner in self.runners:
            if runner._stack._thread is here:
                self.trace.append((runner.name, where))
                runner._give_the_turn_on()


@dataclass
class Case:
    """Two writers' works, and what may befall the requests of both."""

    first: Callable[[dn.DeltaTable], Any]
    second: Callable[[dn.DeltaTable], Any]
    release: str = "0.7"
    unpublished: int = 0
    """Commits that are not published at the start; the server takes no more than ten."""
    faults: Sequence[Does | None] = field(default=())
    """Of the proposals in their order."""
    added: tuple[int, ...] = (101, 201)
    """The rows that are there in the end, whatever the order; none where one of the two may be refused."""
    rows: tuple[Callable[[list[int]], list[int]], ...] = ()
    """What each of the two makes of the rows, where one may be refused."""

    def serial(self, before: list[int], *outcomes: Any) -> list[list[int]]:
        """The rows after those that got through, one after the other in either order."""
        through = [makes for makes, outcome in zip(self.rows, outcomes, strict=True)
                   if not isinstance(outcome, Exception)]
        ends = []
        for order in itertools.permutations(through):
            rows = before
            for makes in order:
                rows = makes(rows)
            ends.append(sorted(rows))
        return ends


def append(number: int) -> Callable[[dn.DeltaTable], Any]:
    return lambda table: table.append({"id": [number]})


def twice(number: int) -> Callable[[dn.DeltaTable], Any]:
    return lambda table: (table.append({"id": [number]}), table.append({"id": [number + 1]}))


def updated(rows: list[int]) -> list[int]:
    return [101 if row == 1 else row for row in rows]


def without(*gone: int) -> Callable[[list[int]], list[int]]:
    return lambda rows: [row for row in rows if row not in gone]


CASES = {
    "appends": Case(append(101), append(201)),
    "two appends each": Case(twice(101), twice(201), added=(101, 102, 201, 202)),
    "release 0.5": Case(append(101), append(201), release="0.5", faults=(LOST_ANSWER, None, LOST_ANSWER)),
    "an update and a delete": Case(lambda t: t.update({"id": "id + 100"}, where="id = 1"),
                                   lambda t: t.delete("id = 1"), added=(), rows=(updated, without(1))),
    "a delete and an append": Case(lambda t: t.delete("id < 100"), append(201), added=(),
                                   rows=(without(1), lambda rows: [*rows, 201])),
    "answers are lost": Case(append(101), append(201), faults=(LOST_ANSWER, LOST_ANSWER)),
    "an update, a delete, and lost answers": Case(
        lambda t: t.update({"id": "id + 100"}, where="id = 1"), lambda t: t.delete("id = 1"), release="0.6",
        faults=(LOST_ANSWER, LOST_REQUEST, LOST_ANSWER), added=(), rows=(updated, without(1))),
    "requests are lost": Case(append(101), append(201), faults=(LOST_REQUEST, None, LOST_REQUEST)),
    "too many unpublished": Case(append(101), append(201), unpublished=9),
    "too many, and answers are lost": Case(append(101), append(201), unpublished=10, faults=(LOST_ANSWER,)),
}


class World:
    """A server with a table, and the clients of one run."""

    def __init__(self, path: Path, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
        self.case, self.monkeypatch = case, monkeypatch
        self.unity = Unity(path / "unity", case.release)
        catalog = catalog_of(self.unity)
        catalog.create_namespace("shop")
        table: Any = catalog.create_table("shop.orders", {"id": [1]})
        with publishing_nothing(monkeypatch):
            for number in range(case.unpublished):
                table.append({"id": [2 + number]})
        self.before = ids(table)
        self.folder = Path(table.path)
        self.ratified: dict[str, bytes] = {}
        self.unity.clear()

    def run(self, switches: Sequence[tuple[int, int]]) -> Scheduler:
        tables = [catalog_of(self.unity).table("shop.orders") for _ in range(2)]
        publisher = catalog_of(self.unity)
        publishing = publisher.table("shop.orders")
        works: list[Work] = [lambda: self.case.first(tables[0]), lambda: self.case.second(tables[1]),
                             lambda: self.publish(publisher, publishing)]
        scheduler = Scheduler(works, switches)
        faults = iter(self.case.faults)

        def gated(asked: Asked, serve: Serve) -> Answer:
            scheduler.stop(asked.operation)
            fault = next(faults, None) if asked.operation == "updateTable" and "add-commit" in asked.actions \
                else None
            return serve() if fault is None else play(fault, asked, serve)

        reader, seen = catalog_of(self.unity).table("shop.orders"), list[bytes]()

        def watch() -> None:
            """Whatever a reader sees, now, goes on from what it saw before."""
            commits = [reader.log.commits.read(version) for version in range(reader.log.update().version + 1)]
            assert commits[:len(seen)] == seen, "the history has changed"
            seen[:] = commits

        scheduler.watch = watch
        self.unity.script(lambda _: True, gated, forever=True)
        with self.monkeypatch.context() as patched:
            for name in ("put_if_absent", "link_if_absent"):
                patched.setattr(LocalStore, name, _stopping(scheduler, getattr(LocalStore, name)))
            scheduler.run()
        self.unity.clear()
        return scheduler

    def publish(self, catalog: Any, table: dn.DeltaTable) -> None:
        """Publish and report what there is, twice, as a sweep does."""
        for _ in range(2):
            committer: Any = table.log.start_transaction().committer
            committer.publish(table.log.update().version)
            catalog.store.report(committer.name, committer.table_id)

    # -- what holds in the end -------------------------------------------------------------------

    def check(self, scheduler: Scheduler) -> None:
        table = catalog_of(self.unity).table("shop.orders")
        bodies = [table.log.commits.read(version) for version in range(table.version + 1)]
        txn_ids = Counter(commit_info_of(body)["txnId"] for body in bodies)
        assert set(txn_ids.values()) == {1}, "no commit is there twice"
        times = [commit_info_of(body)["inCommitTimestamp"] for body in bodies]
        assert times == sorted(set(times)), "times rise"
        for version, body in enumerate(bodies):
            published = self.folder / "_delta_log" / f"{version:020}.json"
            assert not published.exists() or published.read_bytes() == body
        staged = self.folder / STAGED_FOLDER
        rejected = [file.name for file in staged.iterdir() if file.read_bytes() not in bodies]
        assert not rejected, "no file of a commit that lost is left"
        assert not table.verify(files="all").proved
        self.check_outcomes(scheduler, table)

    def check_outcomes(self, scheduler: Scheduler, table: dn.DeltaTable) -> None:
        first, second, published = scheduler.outcomes
        assert published is None, "who publishes meets no error"
        rows = ids(table)
        assert len(rows) == len(set(rows))
        for outcome in (first, second):
            if isinstance(outcome, Exception):
                assert isinstance(outcome, errors.DeltaConcurrentModificationException), outcome
        if self.case.added:
            assert not isinstance(first, Exception) and not isinstance(second, Exception)
            assert set(rows) == {*self.before, *self.case.added}
        else:
            assert rows in self.case.serial(self.before, first, second), "as one after the other"
        assert not all(isinstance(outcome, Exception) for outcome in (first, second)), "one gets through"


def _stopping(scheduler: Scheduler, whole: Any) -> Any:
    def write(store: LocalStore, name: str, *content: Any, **settings: Any) -> Any:
        scheduler.stop(f"write {name.rpartition('/')[2][:24]}")
        return whole(store, name, *content, **settings)

    return write


def switches_of(stops: int) -> list[tuple[tuple[int, int], ...]]:
    """All orders with at most so many preemptions, of a run of about so many stops."""
    one = list(itertools.product(range(stops), (1, 2)))
    return [(), *((each,) for each in one),
            *(pair for pair in itertools.combinations(one, PREEMPTIONS) if pair[0][0] < pair[1][0])]


@pytest.fixture(autouse=True)
def unsynced() -> Iterator[None]:
    with dn.set_options(durability="none"):
        yield


@pytest.mark.parametrize("name", CASES)
def test_in_each_order_what_was_told_is_true(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    case = CASES[name]
    probe = World(tmp_path / "probe", case, monkeypatch)
    length = probe.run(()).stops
    orders = switches_of(length)
    if not request.config.getoption("--thorough"):
        orders = Random(name).sample(orders, SAMPLE)
    for number, switches in enumerate(orders):
        world = World(tmp_path / str(number), case, monkeypatch)
        scheduler = world.run(switches)
        try:
            world.check(scheduler)
        except AssertionError as error:
            raise AssertionError(f"{name}, {switches}: {scheduler.trace}") from error


def test_there_are_orders_in_which_each_meets_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the others cannot pass by never meeting."""
    lengths = {name: World(tmp_path / name, case, monkeypatch).run(()).stops for name, case in CASES.items()}
    assert min(lengths.values()) > 10
    kinds: Counter[tuple[str, ...]] = Counter()
    for number, switches in enumerate(switches_of(lengths["an update and a delete"])[::40]):
        world = World(tmp_path / str(number), CASES["an update and a delete"], monkeypatch)
        kinds[tuple(type(outcome).__name__ for outcome in world.run(switches).outcomes[:2])] += 1
    assert len(kinds) >= 3, "either is first, and one of them is refused"
