"""Who passed whom: losses of deltalake, anomalies made without conflict rules, and histories of writers that
skip them, each checked against every serial order."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.observe.verify import Verification
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from deltanb.transaction import conflict_rules
from tests.examples import first

SEEDS = first(4, of=60)
HISTORIES = 100  # of each seed
OF_ISOLATION = {"conflict-passed", "kept-under-overwrite", "removed-twice"}


def blames(report: Verification, certainty: str = "") -> list[Any]:
    """Findings and cycles about who passed whom, of one certainty or of any."""
    both = [*(finding for finding in report.findings if finding.kind in OF_ISOLATION), *report.cycles]
    return [one for one in both if one.certainty == certainty or not certainty]


# -- what deltalake loses -------------------------------------------------------------------------------


def test_two_compactions_of_deltalake_double_the_rows(tmp_path: Path) -> None:
    for n in range(3):
        deltalake.write_deltalake(tmp_path, pa.table({"n": [n, n + 10]}), mode="append")
    handles = [deltalake.DeltaTable(tmp_path) for _ in range(2)]
    for handle in handles:
        handle.optimize.compact()
    assert dn.open(tmp_path).count() == 12  # of six rows
    report = dn.verify(tmp_path)
    (cycle,) = report.cycles
    assert (cycle.kind, cycle.certainty, cycle.versions) == ("doubled rows", "proved", (3, 4))
    assert {("removed-twice", (3, 4)), ("conflict-passed", (3, 4))} == {
        (finding.kind, finding.versions) for finding in report.proved}
    assert report.status == 1


def test_an_overwrite_of_deltalake_keeps_an_append(tmp_path: Path) -> None:
    """It is right in the order of no Serializable table, and right if the append counts as later."""
    deltalake.write_deltalake(tmp_path, pa.table({"n": [1, 2, 3]}))
    stale = deltalake.DeltaTable(tmp_path)
    deltalake.write_deltalake(tmp_path, pa.table({"n": [4, 5, 6]}), mode="append")
    deltalake.write_deltalake(stale, pa.table({"n": [7, 8, 9]}), mode="overwrite")
    assert dn.open(tmp_path).count() == 6  # where three were meant
    report = dn.verify(tmp_path)
    assert [(one.kind, one.versions) for one in report.findings] == [("kept-under-overwrite", (1, 2))]
    assert [cycle.kind for cycle in report.cycles] == ["kept under overwrite"]
    assert report.status == 3
    assert (1, 2) in [spot.versions for spot in report.blind_spots if spot.kind == "read-version"]


@pytest.mark.parametrize("match", [
    {"replace_using": "n"}, {"replace_on": "target.n = source.n"}, {"where": "n = 1"},
    {"partition_overwrite": "dynamic"}], ids=str)
def test_an_overwrite_of_some_rows_keeps_the_others_by_right(match: dict[str, Any], tmp_path: Path) -> None:
    table = dn.create(tmp_path, {"n": [1, 2], "p": ["a", "a"]}, "p")
    table.append({"n": [3], "p": ["b"]})
    table.overwrite({"n": [1], "p": ["a"]}, **match)
    assert "b" in table.to_arrow()["p"].to_pylist()
    assert blames(dn.verify(tmp_path)) == []


# -- anomalies of our own transactions, whose rules are switched off ------------------------------------


@pytest.fixture
def lawless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No conflict rule holds while a test writes."""
    monkeypatch.setattr(conflict_rules, "RULES", ())


def verified(table: dn.DeltaTable, monkeypatch: pytest.MonkeyPatch) -> Verification:
    """The verification, with the rules in force again."""
    monkeypatch.undo()
    return table.verify()


@pytest.mark.usefixtures("lawless")
def test_a_lost_update_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    table = dn.create(MemoryStore(), {"id": [1, 2], "v": [0, 0]})
    with table.transaction() as txn:
        txn.update({"v": "v + 1"}, "id = 1")
        table.update({"v": "v + 10"}, "id = 1")
    assert table.count() == 4
    report = verified(table, monkeypatch)
    assert [(c.kind, c.certainty, c.versions, c.loser) for c in report.cycles] == [
        ("lost update", "proved", (1, 2), 2)]
    assert [f.kind for f in report.proved] == ["removed-twice", "conflict-passed"]


@pytest.mark.usefixtures("lawless")
def test_write_skew_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    table = dn.create(MemoryStore(), {"id": [1, 2], "p": ["a", "b"]}, partition_by="p")
    with table.transaction() as txn:
        txn.update({"p": "'b'"}, "p = 'a'")
        table.update({"p": "'a'"}, "p = 'b'")
    report = verified(table, monkeypatch)
    (cycle,) = report.cycles
    assert (cycle.kind, cycle.certainty, cycle.versions) == ("write skew", "proved", (1, 2))
    assert sorted(cycle.edges) == [(1, 2, "rw"), (2, 1, "rw")]
    assert [(f.kind, f.certainty) for f in report.findings] == [("conflict-passed", "proved")]


@pytest.mark.usefixtures("lawless")
def test_an_append_that_could_have_come_later_is_possible_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    table = dn.create(MemoryStore(), {"id": [1, 2], "p": ["a", "b"]}, partition_by="p")
    with table.transaction() as txn:
        txn.delete("p = 'a'")
        table.append({"id": [3], "p": ["a"]})
    report = verified(table, monkeypatch)
    assert [(f.kind, f.certainty, f.versions) for f in report.findings] == [
        ("conflict-passed", "possible", (1, 2))]
    assert not [cycle for cycle in report.cycles if cycle.certainty == "proved"]


# -- random histories against every serial order --------------------------------------------------------


@dataclass(frozen=True)
class File:
    """A data file: its partition, and the one value of its rows."""

    path: str
    p: str
    v: int


@dataclass(frozen=True)
class Done:
    """A commit: what it looked for (None: nothing; else part of partition and value), and what it did."""

    name: str
    read: int
    looked_for: tuple[str | None, int | None] | None
    removed: frozenset[File]
    added: frozenset[File]

    def matches(self, file: File) -> bool:
        """Whether it would remove the file, where it sees it."""
        if self.looked_for is None:
            return False
        p, v = self.looked_for
        return (p is None or file.p == p) and (v is None or file.v == v)

    def explains(self, live: frozenset[File]) -> bool:
        """Whether it does the same where these files are live."""
        if self.looked_for is None:
            return self.removed <= live
        return self.removed == {file for file in live if self.matches(file)}


class Writers:
    """Three writers, each with a view of its own that may be stale, who ask nobody before they commit."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.numbers = draw, itertools.count()
        self.first = frozenset(self.file(p, v) for p, v in (("a", 1), ("b", 2), ("b", 1)))
        self.live = [self.first]
        self.views = [0, 0, 0]
        self.commits: list[Done] = []

    def file(self, p: str = "", v: int = 0) -> File:
        return File(f"p={p or (p := self.draw.choice('ab'))}/f{next(self.numbers)}", p,
                    v or self.draw.choice([1, 2]))

    def step(self) -> None:
        """One writer commits on what it saw, and now and then looks anew."""
        who = self.draw.randrange(3)
        if self.draw.random() < 0.4:
            self.views[who] = len(self.live) - 1
        read = self.views[who]
        seen = self.live[read]
        name = self.draw.choice(
            ["append", "delete", "update", "move", "delete_value", "overwrite", "optimize"])
        p, v = self.draw.choice("ab"), self.draw.choice([1, 2])
        looked_for = {"append": None, "optimize": None, "overwrite": (None, None),
                      "delete_value": (None, v)}.get(name, (p, None))
        done = Done(name, read, looked_for, frozenset(), frozenset())
        removed = frozenset(file for file in seen if done.matches(file))
        added: frozenset[File] = frozenset()
        if name in ("append", "overwrite"):
            added = frozenset({self.file()})
        elif name == "optimize":
            removed = frozenset(file for file in seen if file.p == p)
            added = frozenset({self.file(p)}) if removed else added
        elif name == "update" and removed:
            added = frozenset({self.file(p)})
        elif name == "move" and removed:
            added = frozenset({self.file("b" if p == "a" else "a")})
        if removed or added:
            self.commits.append(Done(name, read, looked_for, removed, added))
            self.live.append(self.live[-1] - removed | added)

    def is_explained(self) -> bool:
        """Whether every commit does what it did in some serial order of them all."""
        return any(self._is_order(order) for order in itertools.permutations(self.commits))

    def _is_order(self, order: tuple[Done, ...]) -> bool:
        live = self.first
        for done in order:
            if not done.explains(live):
                return False
            live = live - done.removed | done.added
        return True

    # -- as a log --------------------------------------------------------------------------------------

    def write(self, isolation: str, with_reads: bool) -> TableBuilder:
        """The history as a table."""
        table = TableBuilder().create("id long, p string, v long", partition_by=["p"],
                                      properties={"delta.isolationLevel": isolation})
        table.commit(*(_add(file, True) for file in self.first))
        for done in self.commits:
            table.commit({"commitInfo": self._info(done, with_reads)}, *self._lines(done))
        return table

    @staticmethod
    def _info(done: Done, with_reads: bool) -> dict[str, Any]:
        name = {"append": "WRITE", "overwrite": "WRITE", "optimize": "OPTIMIZE", "update": "UPDATE",
                "move": "UPDATE"}.get(done.name, "DELETE")
        parameters: dict[str, Any] = {}
        if name == "WRITE":
            parameters["mode"] = done.name.capitalize()
        elif done.looked_for:
            p, v = done.looked_for
            parameters["predicate"] = f'["(p = \'{p}\')"]' if p else f'["(v = {v})"]'
        info: dict[str, Any] = {"timestamp": 1, "operation": name, "operationParameters": parameters}
        if with_reads:
            info |= {"readVersion": done.read + 1, "isBlindAppend": done.name == "append"}
        return info

    @staticmethod
    def _lines(done: Done) -> Iterator[dict[str, Any]]:
        changes = done.name != "optimize"
        for file in done.removed:
            yield remove(file.path, dataChange=changes, partitionValues={"p": file.p}, size=1)
        for file in done.added:
            yield _add(file, changes)


def _add(file: File, changes: bool) -> dict[str, Any]:
    stats = f'{{"numRecords":1,"minValues":{{"v":{file.v}}},"maxValues":{{"v":{file.v}}}}}'
    return add(file.path, {"p": file.p}, dataChange=changes, stats=stats)


@pytest.mark.parametrize("isolation", ["Serializable", "WriteSerializable"])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_no_order_explains_is_found_and_what_one_does_is_not_proved(seed: int, isolation: str) -> None:
    draw, explained, proved, num_cycles = random.Random(seed), 0, 0, 0
    for number in range(HISTORIES):
        writers = Writers(draw)
        for _ in range(draw.randint(2, 4)):
            writers.step()
        report = dn.verify(writers.write(isolation, with_reads=True).store, files="none")
        context = number, writers.commits, report.findings, report.cycles
        if writers.is_explained():
            explained += 1
            assert not blames(report, "proved"), context
        else:
            num_cycles += 1
            assert blames(report), context
            proved += bool(blames(report, "proved"))
    assert explained > HISTORIES // 5 and num_cycles > HISTORIES // 10 and proved > num_cycles // 2


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_explained_is_proved_where_reads_are_not_recorded(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(HISTORIES):
        writers = Writers(draw)
        for _ in range(4):
            writers.step()
        report = dn.verify(writers.write("Serializable", with_reads=False).store, files="none")
        assert not (writers.is_explained() and blames(report, "proved")), (writers.commits, report)
