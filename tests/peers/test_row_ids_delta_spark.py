"""Random histories beside Delta Spark: rows keep their ids, and get their commit versions, as they do there.

A history is the same statements on two tables: here some are one transaction, there each is a commit. Ids
are given in whatever order files are written, so they are compared by what becomes of them; commit versions,
the feed and rows are the same, and Delta Spark reads the ids that we gave.

A usual run has a few histories, and leaves out those that ``--thorough`` has beside them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.table.table import DeltaTable
from tests.commands.test_row_ids import FEED, TRACKED, VECTORS, ids_of
from tests.examples import first
from tests.peers.delta_spark import DeltaSpark, table

pytestmark = [pytest.mark.slow, pytest.mark.spark]

HISTORIES = first(1, of=60)
SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string(), "v": pa.int64()})
LAYOUTS = [{}, VECTORS, FEED, {**FEED, **VECTORS}]
KEYS = 12


@dataclass(frozen=True)
class Statement:
    """What both do, in their words."""

    name: str
    ours: Callable[[DeltaTable], Any]
    theirs: Callable[[DeltaSpark, Path], Any]


def rows_of(keys: list[int], value: int) -> pa.Table:
    return pa.table({"id": keys, "p": ["ab"[key % 2] for key in keys], "v": [value] * len(keys)}, SCHEMA)


def as_query(rows: pa.Table) -> str:
    values = ", ".join(f"({row['id']}L, '{row['p']}', {row['v']}L)" for row in rows.to_pylist())
    return f"SELECT * FROM VALUES {values} AS s(id, p, v)"


class Draw:
    """Statements drawn by a number; new keys are never used twice."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.next = KEYS

    def condition(self) -> str:
        step = self.random.choice([2, 3, 4])
        sql = f"id % {step} = {self.random.randrange(step)}"
        return sql + self.random.choice(["", " AND p = 'a'", " OR v > 2"])

    def new(self) -> list[int]:
        count = self.random.randint(1, 3)
        self.next += count
        return list(range(self.next - count, self.next))

    def insert(self) -> Statement:
        rows = rows_of(self.new(), 0)
        return Statement("insert", lambda t: t.append(rows),
                         lambda peer, path: peer.sql(f"INSERT INTO {table(path)} {as_query(rows)}"))

    def update(self) -> Statement:
        where, column = self.condition(), self.random.choice(["v = v + 1", "v = v + 1, p = 'z'"])
        values = dict(part.split(" = ") for part in column.split(", "))
        return Statement(f"update {where}", lambda t: t.update(values, where),
                         lambda peer, path: peer.sql(f"UPDATE {table(path)} SET {column} WHERE {where}"))

    def delete(self) -> Statement:
        where = self.condition()
        return Statement(f"delete {where}", lambda t: t.delete(where),
                         lambda peer, path: peer.sql(f"DELETE FROM {table(path)} WHERE {where}"))

    def merge(self) -> Statement:
        known = self.random.sample(range(self.next), 3)
        rows = rows_of(sorted({*known, *self.new()}), self.random.choice([5, -1]))
        sql = ("MERGE INTO {} t USING ({}) s ON t.id = s.id WHEN MATCHED AND s.v < 0 AND t.v > 0 THEN DELETE "
               "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *")
        return Statement(
            f"merge {known}",
            lambda t: (t.merge(rows, "t.id = s.id", target_alias="t", source_alias="s")
                       .when_matched_delete("s.v < 0 AND t.v > 0").when_matched_update(set={"v": "s.v"})
                       .when_not_matched_insert_all().execute()),
            lambda peer, path: peer.sql(sql.format(table(path), as_query(rows))))

    def overwrite(self) -> Statement:
        keys = self.new()
        rows, where = rows_of(keys, 1), f"(id % 5 = {self.random.randrange(5)} OR id >= {keys[0]})"
        return Statement(
            f"overwrite {where}", lambda t: t.overwrite(rows, where=where),
            lambda peer, path: peer.write(as_query(rows), path, "overwrite", replaceWhere=where))

    def optimize(self) -> Statement:
        return Statement("optimize", lambda t: t.optimize(),
                         lambda peer, path: peer.sql(f"OPTIMIZE {table(path)}"))

    def transactions(self) -> Iterator[list[Statement]]:
        for _ in range(3):
            if self.random.random() < 0.2:
                yield [self.optimize()]
                continue
            kinds = [self.insert, self.update, self.update, self.delete, self.merge, self.overwrite]
            yield [self.random.choice(kinds)() for _ in range(self.random.choice([1, 2]))]


class Pair:
    """Two tables that begin the same, and which version of theirs belongs to which of ours."""

    def __init__(self, peer: DeltaSpark, folder: Path, layout: dict[str, str], by: list[str]) -> None:
        self.peer = peer
        self.ours, self.theirs = folder / "ours", folder / "theirs"
        self.tables = [self._made(path, layout, by) for path in (self.ours, self.theirs)]
        self.versions = {0: 0, 1: 1}
        self.is_fed = FEED.items() <= layout.items()

    def _made(self, path: Path, layout: dict[str, str], by: list[str]) -> DeltaTable:
        made = dn.create(path, rows_of(list(range(8)), 0), partition_by=by, properties={**TRACKED, **layout})
        made.append(rows_of(list(range(8, KEYS)), 3))
        return made

    def run(self, statements: list[Statement], *, crossed: bool = False) -> None:
        """One transaction of ours, and as many commits of theirs; ``crossed``: each on the other's table."""
        mine = self.tables[int(crossed)]
        before, starts = [ids_of(t) for t in self.tables], [t.version for t in self.tables]
        is_one = len(statements) == 1
        with nullcontext(mine) if is_one else mine.transaction() as txn:
            for statement in statements:
                statement.ours(txn)
        for statement in statements:
            statement.theirs(self.peer, self.theirs if not crossed else self.ours)
        ours, theirs = (range(start + 1, t.version + 1) for start, t in zip(starts, self.tables, strict=True))
        is_optimize = statements[0].name == "optimize"  # what is one file here may be two there
        assert bool(ours) == bool(theirs) or is_optimize
        self.versions |= dict.fromkeys(theirs, self.tables[0].version)
        self.check(before)
        if self.is_fed and not is_optimize:
            seen = {*before[0], *ids_of(self.tables[0])}
            assert self.feed(0, ours, seen) == self.feed(1, theirs, seen)

    def check(self, before: list[dict[int, tuple[int, int]]]) -> None:
        now = [ids_of(t) for t in self.tables]
        rows = [sorted(t.to_arrow().to_pylist(), key=str) for t in self.tables]
        assert rows[0] == rows[1]
        fates = [{key: old[key][0] == new[key][0] for key in old if key in new}
                 for old, new in zip(before, now, strict=True)]
        assert fates[0] == fates[1], "the same rows keep their ids"
        assert {key: at for key, (_, at) in now[0].items()} == {
            key: self.versions[at] for key, (_, at) in now[1].items()}, "commit versions"

    def feed(self, which: int, versions: range, seen: set[int]) -> Counter[str]:
        """The changes of rows that a version has: of what one commit brings and takes there may be none."""
        counts: Counter[str] = Counter()
        for version in versions:
            for row in self.tables[which].changes(version, version).to_pylist():
                if row["id"] in seen:
                    counts[str([row[name] for name in ("_change_type", *SCHEMA.names)])] += 1
        return counts

    def check_reading(self) -> None:
        """Delta Spark reads the ids that we gave, as we do."""
        stored = self.peer.rows(self.ours, "id, _metadata.row_id a, _metadata.row_commit_version b")
        assert {row["id"]: (row["a"], row["b"]) for row in stored} == ids_of(self.tables[0])


@pytest.mark.parametrize("seed", HISTORIES)
def test_history(delta_spark: DeltaSpark, tmp_path: Path, seed: int) -> None:
    draw = Draw(seed)
    layout, by = LAYOUTS[seed % len(LAYOUTS)], draw.random.choice([[], ["p"]])
    pair = Pair(delta_spark, tmp_path, layout, by)
    for statements in draw.transactions():
        pair.run(statements)
    pair.check_reading()
    pair.run([draw.update()], crossed=True)
