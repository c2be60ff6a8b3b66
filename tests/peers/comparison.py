"""The README's comparison of deltanb with delta-rs and Delta Spark, each cell found out by running it.

What lives here: the rows of that table. Each is a function that tries something with a library in an empty
folder and returns what belongs into the cell.
What it does not know: what the README says (``test_comparison``), how a library is spoken to (``libraries``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deltanb as dn
from deltanb.actions import AddCDCFile, AddFile
from deltanb.log.commits import commit_name
from tests.peers.libraries import CONDITION, DATA, ISOLATION, Deltanb, DeltaRs, Library, Spark, object_store

YES, NO = "✓", "–"
Probe = Callable[[Library, Path], str]


# -- conflicts -----------------------------------------------------------------------------------------

def what_a_conflict_names(library: Library, folder: Path) -> str:
    """Which of these an error about a lost race has: who won, and what of it met what of yours."""
    path = folder / "t"
    dn.create(path, dict(DATA), partition_by=["month"])
    message = library.lost_delete(path)
    assert message is not None
    facets = {"winner": "WRITE" in message and "version 1" in message.lower(),
              "partition": "month=1" in message,
              "your predicate": CONDITION in message, "file": "part-0000" in message}
    return ", ".join(name for name, is_there in facets.items() if is_there) or NO


def isolation_levels(library: Library, folder: Path) -> str:
    """The levels that can be set and that make a difference to a DELETE which a blind append beat."""
    levels = set()
    for level in ("Serializable", "WriteSerializable"):
        path = folder / level / "t"
        dn.create(path, dict(DATA), partition_by=["month"])
        try:
            library.set_property(path, ISOLATION, level)
        except library.refusals:
            continue
        levels.add("WriteSerializable" if library.lost_delete(path) is None else "Serializable")
    return ", ".join(sorted(levels))


def refused_or_done(does: Callable[[], None], library: Library) -> str:
    """Whether the library does it, or says that it has no such thing."""
    try:
        does()
    except library.refusals as error:
        assert re.search("unsupported|syntax error|not valid", str(error).lower()), error
        return NO
    return YES


def statements(library: Library, folder: Path) -> str:
    return refused_or_done(lambda: library.statements_in_one_commit(folder), library)


def tables(library: Library, folder: Path) -> str:
    return refused_or_done(lambda: library.tables_in_one_commit(folder), library)


def locks(library: Library, folder: Path) -> str:
    return refused_or_done(lambda: library.lock(folder), library)


# -- commands and features -----------------------------------------------------------------------------

ROWS: dict[str, list[Any]] = {"id": [1, 2, 3], "name": ["a", "b", "c"]}
ALL = [(1, "a"), (2, "b"), (3, "c")]
NEW: dict[str, list[Any]] = {"id": [4], "name": ["d"]}


def in_order(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in rows), key=repr)


def commands(library: Library, folder: Path) -> str:
    path = folder / "t"
    dn.create(path, ROWS)
    library.update(path, "name", "'x'", "id = 1")
    library.delete(path, "id = 2")
    library.merge(path, {"id": [3, 4], "name": ["y", "z"]})
    assert in_order(library.rows(path)) == [(1, "x"), (3, "y"), (4, "z")]
    library.optimize(path)
    library.restore(path, 0)
    library.vacuum(path)
    assert in_order(library.rows(path)) == ALL
    return YES


@dataclass(frozen=True)
class Feature:
    """A table feature: a table of ours that uses it, what a library reads there, and what it is to write.

    ``rows`` is what there is to read, ``write`` a change, and ``is_written`` whether the change kept to the
    feature, as the newest version says.
    """

    data: Any
    rows: list[tuple[Any, ...]]
    write: Callable[[Library, Path], None]
    is_written: Callable[[dn.DeltaTable], bool]
    properties: dict[str, str] = field(default_factory=dict)
    prepare: Callable[[dn.DeltaTable], object] = lambda table: None
    read: Callable[[Library, Path], list[dict[str, Any]]] = lambda library, path: library.rows(path)

    def __call__(self, library: Library, folder: Path) -> str:
        """``read``, ``read, written`` or neither."""
        made, path = folder / "made", folder / "t"
        self.prepare(dn.create(made, self.data, properties=self.properties))
        made.rename(path)  # nothing that this process remembers of the table is known of the new place
        words = []
        try:
            if in_order(self.read(library, path)) == in_order([dict(enumerate(row)) for row in self.rows]):
                words.append("read")
            self.write(library, path)
        except library.refusals as error:
            assert "feature" in str(error).lower(), error  # and not some slip of ours
            return ", ".join(words) or NO
        if self.is_written(dn.open(path)):
            words.append("written")
        return ", ".join(words) or NO


def adds(table: dn.DeltaTable, kind: type = AddFile) -> list[Any]:
    """The actions of one kind in the newest commit."""
    return [action for action in table.log.read_commit(table.version) if isinstance(action, kind)]


def change_feed(library: Library, path: Path) -> list[dict[str, Any]]:
    """The changes of version 1, without its time."""
    return [{name: row[name] for name in ("id", "name", "_change_type")} for row in library.changes(path, 1)]


def has(*row: Any) -> Callable[[dn.DeltaTable], bool]:
    return lambda table: row in in_order(table.to_arrow().to_pylist())


def compatible_with_iceberg(table: dn.DeltaTable) -> None:
    """Switch compatibility with Iceberg on in a log of one commit: no call of ours does that."""
    commit = Path(table.path) / commit_name(0)
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        line.get("protocol", {}).get("writerFeatures", []).append("icebergCompatV2")
        line.get("metaData", {}).get("configuration", {})["delta.enableIcebergCompatV2"] = "true"
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    commit.with_suffix(".crc").unlink(missing_ok=True)


FEATURES: dict[str, Feature] = {
    "Deletion vectors": Feature(
        ROWS, [(2, "b"), (3, "c")], lambda library, path: library.delete(path, "id = 2"),
        lambda table: any(add.deletion_vector for add in adds(table)),
        {"delta.enableDeletionVectors": "true"}, lambda table: table.delete("id = 1")),
    "Column mapping": Feature(
        ROWS, ALL,
        lambda library, path: library.append(path, {"id": [4], "label": ["d"]}), has(4, "d"),
        {"delta.columnMapping.mode": "name"}, lambda table: table.rename_column("name", "label")),
    "Change data feed": Feature(
        ROWS, [(1, "a", "update_preimage"), (1, "A", "update_postimage")],
        lambda library, path: library.update(path, "name", "'B'", "id = 2"),
        lambda table: bool(adds(table, AddCDCFile)),
        {"delta.enableChangeDataFeed": "true"}, lambda table: table.update({"name": "'A'"}, where="id = 1"),
        change_feed),
    "Row tracking": Feature(
        ROWS, ALL, lambda library, path: library.append(path, NEW),
        lambda table: [add.base_row_id for add in adds(table)] == [3], {"delta.enableRowTracking": "true"}),
    "Liquid clustering": Feature(
        ROWS, [*ALL, (4, "d")], lambda library, path: library.optimize(path),
        lambda table: {add.clustering_provider for add in adds(table)} == {"liquid"},
        prepare=lambda table: (table.cluster_by("id"), table.append(NEW))),
    "Generated columns": Feature(
        "n BIGINT, twice BIGINT GENERATED ALWAYS AS (n * 2)", [(1, 2)],
        lambda library, path: library.append(path, {"n": [4]}), has(4, 8),
        prepare=lambda table: table.append({"n": [1]})),
    "Identity columns": Feature(
        "id BIGINT GENERATED ALWAYS AS IDENTITY, name STRING", [(1, "a")],
        lambda library, path: library.append(path, {"name": ["b"]}), has(2, "b"),
        prepare=lambda table: table.append({"name": ["a"]})),
    "Type widening": Feature(
        "n INT", [(1,)], lambda library, path: library.append(path, {"n": [2**40]}), has(2**40),
        {"delta.enableTypeWidening": "true"},
        lambda table: (table.append({"n": [1]}), table.change_column("n", type="bigint"))),
    "Iceberg compatibility (`icebergCompatV2`)": Feature(
        ROWS, ALL, lambda library, path: library.append(path, NEW),
        has(4, "d"), {"delta.columnMapping.mode": "name"}, compatible_with_iceberg),
}


# -- where it runs, and on what ------------------------------------------------------------------------

def object_stores(library: Library, folder: Path) -> str:
    """Whether a table on S3 is asked for, of a server that has none."""
    with object_store() as (address, asked):
        try:
            library.open_object_store(address)
        except (*library.refusals, OSError) as error:
            if "S3AFileSystem not found" in str(error):
                return "with `hadoop-aws`"
    return YES if any(path.startswith("/bucket") for path in asked) else NO


def streaming(library: Library, folder: Path) -> str:
    source, target = folder / "source", folder / "target"
    dn.create(source, ROWS)
    try:
        library.stream(source, target)
    except NotImplementedError:
        return NO
    assert dn.open(target).count() == 3
    return YES


def no_java(library: Library, folder: Path) -> str:
    try:
        library.without_java(folder / "t")
    except RuntimeError as error:
        assert "JAVA_GATEWAY_EXITED" in str(error) or "java" in str(error).lower(), error
        return NO
    return YES


ROWS_OF_THE_TABLE: dict[str, Probe] = {
    "What a conflict's error names": what_a_conflict_names,
    "Isolation levels you can choose": isolation_levels,
    "Several statements in one commit": statements,
    "Several tables in one commit, through a catalog": tables,
    "Nested scopes and locks, between threads": locks,
    "`DELETE` `UPDATE` `MERGE` `OPTIMIZE` `RESTORE` `VACUUM`": commands,
    **FEATURES,
    "Object stores": object_stores,
    "Spark Structured Streaming": streaming,
    "Runs without a JVM": no_java,
}
LIBRARIES = (Deltanb, DeltaRs, Spark)
