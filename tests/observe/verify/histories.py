"""Random histories that are sound, because whoever wrote them kept the rules: ours, and deltalake's.

What lives here: :func:`ours` and :func:`delta_rs`, which write a table by a number; :data:`WRITERS`, both.
What it does not know: what is verified of it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa

import deltanb as dn
from deltanb.errors import DeltaError
from deltanb.table.table import DeltaTable

FEATURES: tuple[dict[str, str], ...] = (
    {"delta.enableDeletionVectors": "true"}, {"delta.enableChangeDataFeed": "true"},
    {"delta.enableRowTracking": "true"}, {"delta.columnMapping.mode": "name"},
    {"delta.enableInCommitTimestamps": "true"}, {"delta.checkpointPolicy": "v2"},
    {"delta.isolationLevel": "WriteSerializable"}, {"delta.enableTypeWidening": "true"},
    {"delta.checkpoint.writeStatsAsStruct": "true"},
)
COLUMNS = "id BIGINT, p STRING, v BIGINT"
KEYS = 12
done: Counter[str] = Counter()
"""What histories did, over all of them: a test sees by it that nothing is only ever refused."""


class Ours:
    """A table of ours and what is done to it, drawn by a number."""

    def __init__(self, path: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        properties = {"delta.checkpointInterval": str(self.draw.choice([2, 3, 10]))}
        for feature in FEATURES:
            if self.draw.random() < 0.4:
                properties.update(feature)
        self.columns = COLUMNS
        if self.draw.random() < 0.4:
            self.columns += ", twice BIGINT GENERATED ALWAYS AS (id * 2)"
        if self.draw.random() < 0.4:
            self.columns += ", n BIGINT GENERATED ALWAYS AS IDENTITY"
        by = self.draw.choice(["", "p"])
        self.table = dn.create(path, self.columns, partition_by=by or (), properties=properties)
        self.next = 0

    def rows(self, count: int | None = None) -> dict[str, list[Any]]:
        """New rows, now and then with NULLs."""
        count = count or self.draw.randint(1, 4)
        self.next += count
        ids = list(range(self.next - count, self.next))
        values = [None if self.draw.random() < 0.2 else self.draw.randrange(9) for _ in ids]
        return {"id": ids, "p": [self.draw.choice(["a", "b", "é%"]) for _ in ids], "v": values}

    def where(self) -> str:
        """A condition."""
        return self.draw.choice([
            "p = 'a'", "v > 4", "v IS NULL",
            f"id % 3 = {self.draw.randrange(3)}", f"id < {self.draw.randrange(9)}"])

    # -- statements, each of which may be refused -------------------------------------------------------

    def append(self) -> object:
        return self.table.append(self.rows())

    def append_batch(self) -> object:
        return self.table.append(self.rows(), txn=("etl", self.table.version))

    def overwrite(self) -> object:
        return self.table.overwrite(self.rows())

    def replace_where(self) -> object:
        return self.table.overwrite({**self.rows(2), "p": ["a", "a"]}, where="p = 'a'")

    def replace_using(self) -> object:
        return self.table.overwrite(self.rows(), replace_using=self.draw.choice(["id", "p"]))

    def replace_on(self) -> object:
        return self.table.overwrite(self.rows(), replace_on="target.id = source.id AND target.v < 5")

    def replace_partitions(self) -> object:
        return self.table.overwrite(self.rows(), partition_overwrite="dynamic")

    def delete(self) -> object:
        return self.table.delete(self.where())

    def delete_all(self) -> object:
        return self.table.delete()

    def update(self) -> object:
        return self.table.update({"v": "v + 1"}, self.where())

    def move(self) -> object:
        return self.table.update({"p": "'b'"}, self.where())

    def merge(self) -> object:
        source = self.rows(3)
        source["id"] = self.draw.sample(range(self.next), 3)
        builder = self.table.merge(source, "target.id = source.id")
        builder = builder.when_matched_update(set={"v": "source.v"})
        values = {name: f"source.{name}" for name in source}
        return builder.when_not_matched_insert(values=values).execute()

    def optimize(self) -> object:
        return self.table.optimize(zorder_by=self.draw.choice([None, "id"]))

    def purge(self) -> object:
        return self.table.purge()

    def restore(self) -> object:
        return self.table.restore(self.draw.randrange(self.table.version + 1))

    def vacuum(self) -> object:
        return self.table.vacuum(self.draw.choice([None, 0]), check=False)

    def analyze(self) -> object:
        return self.table.analyze()

    def add_column(self) -> object:
        return self.table.add_columns(f"c{self.table.version} {self.draw.choice(['long', 'string', 'date'])}")

    def rename_column(self) -> object:
        extra = [f.name for f in self.table.schema.fields if f.name.startswith("c")]
        return self.table.rename_column(extra[0], f"c_{self.table.version}") if extra else None

    def drop_column(self) -> object:
        extra = [f.name for f in self.table.schema.fields if f.name.startswith("c")]
        return self.table.drop_columns(extra[0]) if extra else None

    def set_property(self) -> object:
        return self.table.set_properties(self.draw.choice(FEATURES[:5]))

    def set_and_unset(self) -> object:
        self.table.set_properties({"delta.appendOnly": "true"})
        return self.table.unset_properties("delta.appendOnly")

    def add_constraint(self) -> object:
        return self.table.add_constraint(f"k{self.table.version}", "id >= 0 OR id IS NULL")

    def drop_feature(self) -> object:
        return self.table.drop_feature(self.draw.choice(["deletionVectors", "rowTracking", "changeDataFeed"]))

    def cluster(self) -> object:
        return self.table.cluster_by("id")

    def sync_identity(self) -> object:
        return self.table.sync_identity("n")

    def checkpoint(self) -> object:
        return self.table.log.checkpoint()

    def replace_table(self) -> object:
        return dn.create(self.table.log.store, self.columns, mode="overwrite")

    def transaction(self) -> object:
        with self.table.transaction() as txn:
            txn.delete(self.where())
            txn.append(self.rows())
        return txn

    def raced(self) -> object:
        """A transaction during which somebody else commits: it lands behind them, or loses."""
        with self.table.transaction() as txn:
            self.draw.choice([lambda: txn.append(self.rows()), lambda: txn.delete(self.where()),
                              lambda: txn.update({"v": "v + 2"}, self.where())])()
            for _ in range(self.draw.randint(1, 2)):
                self.draw.choice([self.append, self.delete, self.optimize, self.update])()
        return txn

    def run(self, length: int) -> DeltaTable:
        """So many statements, of which appends come first; the table."""
        words = (
            "append", "append", "append", "append_batch", "overwrite", "replace_where",
            "replace_partitions", "delete", "delete", "delete_all", "update", "update", "move", "merge",
            "merge", "optimize", "purge", "restore", "vacuum", "analyze", "add_column", "rename_column",
            "drop_column", "set_property", "set_and_unset", "add_constraint", "drop_feature", "cluster",
            "sync_identity", "checkpoint", "replace_table", "transaction", "raced", "raced", "raced",
            "replace_using", "replace_on")
        for number in range(length):
            name = "append" if number < 2 else self.draw.choice(words)
            try:
                getattr(self, name)()
                done[name] += 1
            except DeltaError:
                done[f"{name} refused"] += 1
        return self.table


def ours(path: Path, seed: int) -> None:
    """A history of our commands."""
    Ours(path, seed).run(12)


def delta_rs(path: Path, seed: int) -> None:
    """A history of deltalake's commands, by one writer whose handle is fresh each time."""
    draw = random.Random(seed)
    after = 0

    def rows() -> pa.Table:
        nonlocal after
        after += 3
        return pa.table({"id": [after, after + 1, after + 2], "p": draw.choices("abc", k=3),
                         "v": draw.choices([None, 1, 2], k=3)},
                        pa.schema({"id": pa.int64(), "p": pa.string(), "v": pa.int64()}))

    configuration = draw.choice(
        [None, {"delta.enableChangeDataFeed": "true"}, {"delta.checkpointInterval": "3"}])
    deltalake.write_deltalake(
        path, rows(), partition_by=draw.choice([None, ["p"]]), configuration=configuration)
    table = lambda: deltalake.DeltaTable(path)  # noqa: E731
    where: Callable[[], str] = lambda: draw.choice(["p = 'a'", "v > 1", "id % 2 = 0"])  # noqa: E731
    statements: list[Callable[[], object]] = [
        lambda: deltalake.write_deltalake(path, rows(), mode="append"),
        lambda: deltalake.write_deltalake(path, rows(), mode="append"),
        lambda: deltalake.write_deltalake(path, rows(), mode="overwrite"),
        lambda: table().delete(where()),
        lambda: table().update(updates={"v": "7"}, predicate=where()),
        lambda: table().merge(rows(), "t.p = s.p AND t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_update_all().when_not_matched_insert_all().execute(),
        lambda: table().optimize.compact(),
        lambda: table().optimize.z_order(["id"]),
        lambda: table().restore(draw.randrange(table().version() + 1)),
        lambda: table().vacuum(0, dry_run=False, enforce_retention_duration=False),
        lambda: table().create_checkpoint(),
        lambda: table().alter.set_table_properties({"delta.logRetentionDuration": "interval 5 days"}),
        lambda: table().alter.add_constraint({f"k{table().version()}": "id >= 0"}),
    ]
    for _ in range(10):
        try:
            draw.choice(statements)()
        except deltalake.exceptions.DeltaError:
            done["delta-rs refused"] += 1


WRITERS: dict[str, Callable[[Path, int], None]] = {"ours": ours, "delta-rs": delta_rs}
