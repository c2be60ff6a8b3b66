"""Random histories of a table beside a plain model: rows that carry the version that last wrote them.

Each row is a dict of its columns; ``written`` is the version that wrote it, ``changed`` the one that last
changed each column. A row that is moved keeps both; an update changes what is assigned, whatever it was.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import deltanb as dn

COLUMNS = ("id", "part", "n", "text")


@dataclass
class Row:
    values: dict[str, Any]
    written: int
    changed: dict[str, int]


@dataclass
class Model:
    """The rows of each version."""

    rows: list[Row] = field(default_factory=list)
    before: dict[int, list[Row]] = field(default_factory=dict)

    def commit(self, version: int) -> None:
        self.before[version] = deepcopy(self.rows)

    def insert(self, rows: list[dict[str, Any]], version: int) -> None:
        self.rows += [Row(values, version, dict.fromkeys(values, version)) for values in rows]

    def increase(self, n: int, version: int) -> None:
        """``n`` by one, and another text, in one part."""
        for row in self.rows:
            if row.values["n"] == n and row.values["part"] == "a":
                self.update(row, {"n": n + 1, "text": "z"}, version)

    def delete(self, n: int) -> None:
        self.rows = [row for row in self.rows if row.values["n"] != n]

    def merge(self, rows: list[dict[str, Any]], version: int, unique: bool = True) -> None:
        """Rows update those with their ids, and are inserted where there are none."""
        for row in rows:
            match = [one for one in self.rows if unique and one.values["id"] == row["id"]]
            for one in match:
                self.update(one, {"n": row["n"], "text": row["text"]}, version)
            if not match:
                self.insert([row], version)

    def overwrite(self, rows: list[dict[str, Any]], version: int) -> None:
        self.rows = []
        self.insert(rows, version)

    def replace(self, n: int, rows: list[dict[str, Any]], version: int) -> None:
        self.delete(n)
        self.insert(rows, version)

    def restore(self, version: int) -> None:
        self.rows = deepcopy(self.before[version])

    def update(self, row: Row, values: dict[str, Any], version: int) -> None:
        row.written = version
        for name, value in values.items():
            if row.values[name] != value:
                row.values[name], row.changed[name] = value, version

    def blame(self) -> Counter[Any]:
        return Counter((tuple(sorted(row.values.items())), row.written) for row in self.rows)

    def column_blame(self, name: str) -> Counter[Any]:
        return Counter((tuple(sorted(row.values.items())), row.changed[name]) for row in self.rows)


class History:
    """A table and its model, changed together."""

    def __init__(self, table: Any, seed: int, unique: bool = True) -> None:
        self.table, self.model, self.random = table, Model(), random.Random(seed)
        self.unique = unique
        self.next_id = 0
        self.done: list[str] = []

    @classmethod
    def create(
        cls, path: Any, seed: int, properties: dict[str, Any], partitioned: bool, unique: bool = True
    ) -> History:
        made = cls(None, seed, unique)
        rows = made.new_rows(6)
        made.table = dn.create(path, columns(rows), partition_by="part" if partitioned else (),
                               properties=properties)
        made.model.insert(rows, 0)
        made.model.commit(0)
        return made

    def new_rows(self, count: int) -> list[dict[str, Any]]:
        rows = []
        for _ in range(count):
            self.next_id += 1
            number = self.next_id if self.unique else self.random.randrange(4)
            rows.append({"id": number, "part": self.random.choice("ab"), "n": self.random.randrange(4),
                         "text": self.random.choice(["x", "y", None])})
        return rows

    def run(self, count: int, steps: Sequence[Callable[[History], None]] = ()) -> None:
        for _ in range(count):
            step = self.random.choice(steps or list(STEPS.values()))
            self.done.append(step.__name__)
            before = self.table.version
            step(self)
            for version in range(before + 1, self.table.version + 1):
                self.model.commit(version)

    @property
    def next(self) -> int:
        return int(self.table.version) + 1

    def rows_to_merge(self) -> list[dict[str, Any]]:
        """A new row, and some that change those with their ids into something else."""
        known = [row.values["id"] for row in self.model.rows]
        return self.new_rows(1) + [
            {"id": number, "part": "b", "n": 100 + self.next, "text": "merged"}
            for number in self.random.sample(known, min(2, len(known)))]

    def check_blame(self, table: Any) -> tuple[Any, str]:
        """Every row and value is blamed as in the model; the blame, and a sentence about the history."""
        blame = table.blame(columns=["n", "text"], keys="id")
        about = f"{self.done}, {blame.doubts}"
        assert blamed(blame, "_version") == self.model.blame(), about
        for name in ("n", "text"):
            assert blamed(blame, f"_{name}_version") == self.model.column_blame(name), f"{name}: {about}"
        return blame, about


def blamed(blame: Any, version: str) -> Counter[Any]:
    """How many rows of the same values a blame gives to each version."""
    return Counter((tuple(sorted((name, row[name]) for name in COLUMNS)), row[version])
                   for row in blame.to_arrow().to_pylist())


def columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    import pyarrow as pa

    return pa.Table.from_pylist(rows, schema=pa.schema(  # type: ignore[return-value]
        [("id", pa.int64()), ("part", pa.string()), ("n", pa.int64()), ("text", pa.string())]))


def append(history: History) -> None:
    rows, version = history.new_rows(history.random.randrange(1, 4)), history.next
    history.table.append(columns(rows))
    history.model.insert(rows, version)


def update(history: History) -> None:
    n, version = history.random.randrange(4), history.next
    history.table.update({"n": "n + 1", "text": "'z'"}, where=f"n = {n} AND part = 'a'")
    history.model.increase(n, version)


def update_all(history: History) -> None:
    version = history.next
    history.table.update({"n": "n + 1"})
    for row in history.model.rows:
        history.model.update(row, {"n": row.values["n"] + 1}, version)


def delete(history: History) -> None:
    n = history.random.randrange(4)
    history.table.delete(f"n = {n}")
    history.model.delete(n)


def merge(history: History) -> None:
    """Changes some rows, each into something else, and inserts some."""
    version, known = history.next, [row.values["id"] for row in history.model.rows]
    ids = history.random.sample(known, min(2, len(known))) if history.unique else []
    rows = history.new_rows(2) + [
        {"id": number, "part": "b", "n": 100 + version, "text": "merged"} for number in ids]
    (history.table.merge(columns(rows), "target.id = source.id")
     .when_matched_update(set={"n": "source.n", "text": "source.text"})
     .when_not_matched_insert_all().execute()) if history.unique else history.table.append(columns(rows))
    history.model.merge(rows, version, history.unique)


def overwrite(history: History) -> None:
    rows, version = history.new_rows(4), history.next
    history.table.overwrite(columns(rows))
    history.model.overwrite(rows, version)


def replace_where(history: History) -> None:
    rows, version = history.new_rows(2), history.next
    rows = [{**row, "n": 2} for row in rows]
    history.table.overwrite(columns(rows), where="n = 2")
    history.model.replace(2, rows, version)


def replace_matching(history: History) -> None:
    """Rows in place of those with their ids, and a new one; all others are copied."""
    version, known = history.next, [row.values["id"] for row in history.model.rows]
    ids = history.random.sample(known, min(2, len(known))) if history.unique else []
    rows = history.new_rows(1) + [
        {"id": number, "part": "b", "n": 100 + version, "text": f"new in {version}"} for number in ids]
    by = history.random.choice([{"replace_using": "id"}, {"replace_on": "target.id = source.id"}])
    history.table.overwrite(columns(rows), **by)
    history.model.rows = [row for row in history.model.rows
                          if row.values["id"] not in {one["id"] for one in rows}]
    history.model.insert(rows, version)


def optimize(history: History) -> None:
    history.table.optimize(zorder_by=history.random.choice([None, "n"]))


def purge(history: History) -> None:
    history.table.purge()


def analyze(history: History) -> None:
    history.table.analyze()


def restore(history: History) -> None:
    version = history.random.randrange(history.table.version + 1)
    history.table.restore(version)
    history.model.restore(version)


def transaction(history: History) -> None:
    """A delete and an append in one commit."""
    n, rows, version = history.random.randrange(4), history.new_rows(1), history.next
    with history.table.transaction() as txn:
        txn.delete(f"n = {n}")
        txn.append(columns(rows))
    history.model.replace(n, rows, version)


STEPS: dict[str, Callable[[History], None]] = {step.__name__: step for step in (
    append, update, update_all, delete, merge, overwrite, replace_where, replace_matching, optimize, purge,
    analyze, restore, transaction)}

TABLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "row ids": {"delta.enableRowTracking": True},
    "feed": {"delta.enableChangeDataFeed": True},
    "vectors": {"delta.enableDeletionVectors": True},
    "feed and vectors": {"delta.enableChangeDataFeed": True, "delta.enableDeletionVectors": True},
    "row ids and vectors": {"delta.enableRowTracking": True, "delta.enableDeletionVectors": True},
    "row ids and feed": {"delta.enableRowTracking": True, "delta.enableChangeDataFeed": True},
    "mapped": {"delta.columnMapping.mode": "name"},
    "everything": {"delta.enableRowTracking": True, "delta.enableChangeDataFeed": True,
                   "delta.enableDeletionVectors": True, "delta.columnMapping.mode": "name"},
}
METHODS = {"plain": "versions", "vectors": "versions", "mapped": "versions", "feed": "feed",
           "feed and vectors": "feed"}
"""By which method rows of a table are blamed; of a table that is not named, by row ids."""


def properties_of(kind: str) -> dict[str, str]:
    """The properties of a table, as other writers take them: all values are text."""
    return {name: str(value).lower() for name, value in TABLES[kind].items()}
