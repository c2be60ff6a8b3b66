"""What tests of several rooms ask of a table, and what they make one of.

What lives here: a table's rows, files, lines and last commit, that a refused call changed nothing, and that
one of many puts into a store wins.
What it does not know: any one command.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb import DeltaTable
from deltanb.errors import DeltaError
from deltanb.log.replay import Delta, feed
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.store.base import LogStore
from deltanb.testing import MemoryStore, to_lines

NAN = float("nan")
COMMIT_NAME = "_delta_log/00000000000000000007.json"


def table_of(rows: Any, *args: Any, **settings: Any) -> DeltaTable:
    """A new table in memory."""
    return dn.create(MemoryStore(), rows, *args, **settings)


def six_rows(store: Any = None, properties: dict[str, str] | None = None) -> DeltaTable:
    """Six rows in the partitions a and b, one file each."""
    data = {"id": [1, 2, 3, 4, 5, 6], "p": ["a", "b"] * 3, "x": [1.0, None, 3.0, NAN, 5.0, 6.0]}
    return dn.create(store or MemoryStore(), data, partition_by="p", properties=properties or {})


def rows(table: DeltaTable, *order: str) -> list[dict[str, Any]]:
    """Every row: by these columns as text, or by ``id`` with NULL last."""

    def place(row: dict[str, Any]) -> Any:
        return [str(row[name]) for name in order] if order else (row["id"] is None, row["id"])

    return sorted(table.to_arrow().to_pylist(), key=place)


def ids(table: DeltaTable, where: str | None = None, column: str = "id") -> list[int]:
    """The ids of the rows, in order."""
    return sorted(table.to_arrow(columns=[column], where=where)[column].to_pylist())


def files_of(table: DeltaTable) -> set[str]:
    """The names of all files of the table but those of its log."""
    return {s.name for s in table.log.store.list_all("") if not s.name.startswith("_delta_log/")}


def refusing_data_files(after: int) -> Callable[[Any], str | None]:
    """For a server of S3: puts are denied once so many data files have been put."""
    asked = 0

    def fault(request: Any) -> str | None:
        nonlocal asked
        asked += request.method == "PUT" and request.key.endswith(".parquet")
        return "403" if request.method == "PUT" and asked > after else None

    return fault


def tree(folder: Path) -> set[str]:
    """The names of all files below a folder, relative to it."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files below a folder."""
    return sorted(folder.rglob("*.parquet"))


def lines_of(store: Any, name: str) -> list[dict[str, Any]]:
    """The actions of a commit, or of any file of a JSON value per line."""
    return [json.loads(line) for line in store.read(name).splitlines()]


def last_commit(table: DeltaTable, kind: type) -> list[Any]:
    """The actions of one kind in the newest commit."""
    return [a for a in table.log.read_commit(table.version) if isinstance(a, kind)]


def last_operation(table: DeltaTable) -> tuple[str, dict[str, str]]:
    """The newest commit's operation and its parameters."""
    entry = table.history(1)[0]
    return entry.operation, entry.operation_parameters


def refused(
    table: DeltaTable, error: type[DeltaError], call: Callable[[], Any], match: str | None = None
) -> DeltaError:
    """The error of a call that must leave the version, the log and the files as they were."""
    before = table.version, {s.name for s in table.log.store.list_all("")}
    with pytest.raises(error, match=match) as caught:
        call()
    assert (table.version, {s.name for s in table.log.store.list_all("")}) == before
    return caught.value


def refuses(
    table: DeltaTable, error: type[DeltaError], match: str, method: str, *args: Any, **more: Any
) -> DeltaError:
    """As :func:`refused`, of a method of the table by its name."""
    return refused(table, error, lambda: getattr(table, method)(*args, **more), match)


def delta_of(*lines: Any) -> Delta:
    """The changes that a commit of these lines makes."""
    delta = Delta()
    feed(delta, to_lines(lines), COMMIT_NAME)
    return delta


def schema_of(**types: str) -> StructType:
    """A schema of nullable columns of primitive types."""
    return StructType(StructField(name, PrimitiveType(kind)) for name, kind in types.items())


def note_decoded_columns(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """A list that grows by the columns of each decoded row group of a checkpoint, but for small actions."""
    from deltanb.parquet.file import SafeFile

    columns_read: list[tuple[str, ...]] = []

    def noting(read: Callable[..., Any], groups_at: int) -> Callable[..., Any]:
        def noted(self: Any, *args: Any, columns: list[str], **named: Any) -> Any:
            if any("." in column for column in columns):
                columns_read.extend([tuple(columns)] * len(args[groups_at]))
            return read(self, *args, columns=columns, **named)
        return noted

    for method, groups_at in (("read_row_groups", 0), ("iter_batches", 1)):
        monkeypatch.setattr(SafeFile, method, noting(getattr(SafeFile, method), groups_at))
    return columns_read


def exactly_one_wins(store: LogStore, times: int) -> None:
    """Of sixteen threads that put one key at once one alone is told that it did, and its bytes are there."""
    store.put_if_absent("first", b"")
    for race in range(times):
        gate, won = threading.Barrier(16), []

        def run(number: int, race: int = race, gate: Any = gate, won: Any = won) -> None:
            gate.wait()
            if store.put_if_absent(f"race-{race}", b"%d" % number):
                won.append(number)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert store.read(f"race-{race}") == b"%d" % won[0]
