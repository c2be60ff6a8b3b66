"""Planting faults: a real table in a folder, and what breaks it behind the back of any writer.

What lives here: :class:`Broken`, :class:`Fault` and :func:`fault`, by which a fault is declared.
What it does not know: the faults (``faults_in_logs``, ``faults_in_files``), what finds them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltanb as dn
from deltanb.log.commits import commit_name

Line = dict[str, Any]
ROWS: Mapping[str, list[Any]] = {"id": [1, 2, 3, 4], "p": ["a", "b", "a", "b"]}


class Broken:
    """A table whose log can be edited. Checksums go with the first edit: each of them would tell of it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, data: Any = ROWS, partition_by: Any = (), **properties: str) -> dn.DeltaTable:
        """A table of ours; keywords are properties, ``_`` standing for ``.``."""
        named = {f"delta.{name.replace('__', '.')}": value for name, value in properties.items()}
        return dn.create(self.path, data, partition_by=partition_by, properties=named)

    def file(self, version: int) -> Path:
        """A commit's file."""
        return self.path / commit_name(version)

    @property
    def last(self) -> int:
        """The newest version in the folder."""
        names = (path.stem for path in (self.path / "_delta_log").glob("*.json"))
        return max(int(name) for name in names if name.isdigit())

    def lines(self, version: int) -> list[Line]:
        """A commit's actions."""
        return [json.loads(line) for line in self.file(version).read_text().splitlines() if line.strip()]

    def write(self, version: int, lines: list[Line]) -> int:
        """A commit of these actions, over what is there and as old as that; the version."""
        for checksum in (self.path / "_delta_log").glob("*.crc"):
            checksum.unlink()
        file = self.file(version)
        modified = file.stat().st_mtime_ns if file.exists() else None
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        if modified is not None:
            os.utime(file, ns=(modified, modified))
        return version

    def append(self, *lines: Line, operation: str = "WRITE", **info: Any) -> int:
        """A new commit of these actions, blind to all others; its version."""
        last = self.last
        info = {"timestamp": 1, "operation": operation, "operationParameters": {}, "readVersion": last,
                "isBlindAppend": False, **info}
        return self.write(last + 1, [{"commitInfo": info}, *lines])

    def edit(self, version: int, key: str, change: Callable[[Line], object]) -> int:
        """Change all actions of one kind in a commit; the version."""
        lines = self.lines(version)
        assert any(key in line for line in lines), (version, key)
        for line in lines:
            if key in line:
                change(line[key])
        return self.write(version, lines)

    def set(self, version: int, key: str, **fields: Any) -> int:
        """Set fields of all actions of one kind in a commit; the version."""
        return self.edit(version, key, lambda action: action.update(fields))

    def drop(self, version: int, key: str) -> int:
        """Take all actions of one kind out of a commit; the version."""
        lines = self.lines(version)
        assert any(key in line for line in lines), (version, key)
        return self.write(version, [line for line in lines if key not in line])

    def actions(self, key: str) -> Iterator[tuple[int, Line]]:
        """All actions of one kind, each with its version, from the first commit on."""
        for version in range(self.last + 1):
            for line in self.lines(version):
                if key in line:
                    yield version, line[key]

    def stats(self, version: int, **fields: Any) -> int:
        """Set fields of the statistics of all files that a commit adds; the version."""
        return self.edit(version, "add", lambda add: add.update(
            stats=json.dumps({**json.loads(add["stats"]), **fields})))

    def schema(self, version: int, change: Callable[[list[Line]], object]) -> int:
        """Change the fields of a commit's schema; the version."""
        def changed(metadata: Line) -> None:
            schema = json.loads(metadata["schemaString"])
            change(schema["fields"])
            metadata["schemaString"] = json.dumps(schema)
        return self.edit(version, "metaData", changed)

    def configure(self, version: int, **values: str) -> int:
        """Set properties in a commit's metadata; the version."""
        named = {f"delta.{name.replace('__', '.')}": value for name, value in values.items()}
        return self.edit(version, "metaData", lambda metadata: metadata["configuration"].update(named))

    def data_files(self) -> list[Path]:
        """Data files, in the order of their first adds."""
        return [self.path / add["path"] for _, add in self.actions("add")]


Versions = int | tuple[int, ...]
Plant = Callable[[Broken], Versions]


@dataclass(frozen=True)
class Fault:
    """A fault: its kind, how it is planted (the function returns the versions of the finding), how certain it
    is, what of the files is looked at, and the kinds that come with it."""

    kind: str
    plant: Plant
    certainty: str
    files: str
    along: frozenset[str]
    anywhere: bool
    """Whether it is planted in a history that is there, whoever wrote it, and not in one of its own."""

    @property
    def name(self) -> str:
        """What the test is called."""
        return f"{self.kind}-{self.plant.__name__}"


FAULTS: list[Fault] = []


def fault(
    kind: str, certainty: str = "proved", files: str = "none", along: str = "", anywhere: bool = False
) -> Callable[[Plant], Plant]:
    """Declare a fault; ``along`` are kinds, by blanks."""
    def declared(plant: Plant) -> Plant:
        FAULTS.append(Fault(kind, plant, certainty, files, frozenset(along.split()), anywhere))
        return plant
    return declared
