"""Tools to test with, ours and yours: stores in memory or misbehaving on request, a table builder.

What lives here: :class:`MemoryStore`, :class:`ScriptedStore` and :class:`TableBuilder`; and by name
:class:`~deltanb.locks.core.memory_index.MemoryIndex`, :class:`~deltanb.testing.s3_server.S3Server`,
:class:`~deltanb.testing.simulated_time.SimulatedTime` and :func:`~deltanb.testing.aside.aside`.
What it does not know: pytest, or any test.

>>> table = TableBuilder(MemoryStore()).create("id long, part string", partition_by=["part"])
>>> _ = table.commit(add("part=1/a", {"part": "1"}), add("part=2/b", {"part": "2"}))
>>> table.log.update().num_files
2
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from deltanb.actions import Action, Metadata
from deltanb.errors import IllegalStateError, InvalidArgument
from deltanb.locks.core.memory_index import MemoryIndex
from deltanb.log.commits import commit_name
from deltanb.options import options
from deltanb.store.base import FileStatus, LogStore
from deltanb.store.memory_file import MemoryFile
from deltanb.store.open import elsewhere, store_for
from deltanb.store.read_only import check_writable
from deltanb.testing.aside import aside
from deltanb.testing.s3_server import S3Server
from deltanb.testing.simulated_time import SimulatedTime
from deltanb.text.completion import offered
from deltanb.transaction.ids import note_made

if TYPE_CHECKING:
    import os

    import pyarrow as pa

    from deltanb.transaction.delta_log import DeltaLog

__all__ = [
    "AnswerExists", "Fail", "Lose", "LoseResponse", "MemoryIndex", "MemoryStore", "Pass",
    "S3Server", "ScriptedStore", "SimulatedTime", "TableBuilder", "add", "aside", "remove",
]

_numbers = itertools.count(1)


class MemoryStore:
    """A table's files in memory; modification times are the clock's (``options.clock``).

    >>> store = MemoryStore()
    >>> store.put_if_absent("_delta_log/a", b"1"), store.put_if_absent("_delta_log/a", b"2")
    (True, False)
    >>> store.read("_delta_log/a")
    b'1'
    """

    is_partial_write_visible = False
    has_folders = False
    is_final = True
    creates_only = True

    def __init__(self, root: str | None = None) -> None:
        self.root = root or f"memory:///table-{next(_numbers)}"
        self.files: dict[str, tuple[bytes, FileStatus]] = {}
        self._lock = threading.RLock()
        self._writes = itertools.count(1)
        self._begun: set[str] = set()

    def __reduce__(self) -> NoReturn:
        raise IllegalStateError(f"{self.root} is in the memory of this process alone, so it cannot be "
                                "pickled or copied; make the table in a folder")

    def list_names(self, name: str) -> list[str]:
        """Names in the folder of ``name``, from it on."""
        return [status.name for status in self.list_from(name)]

    def list_from(self, name: str) -> list[FileStatus]:
        """Statuses in the folder of ``name``, from it on."""
        folder = name.rpartition("/")[0]
        with self._lock:
            return sorted(
                (status for other, (_, status) in self.files.items()
                 if other >= name and other.rpartition("/")[0] == folder),
                key=lambda status: status.name,
            )

    def list_all(self, prefix: str) -> Iterator[FileStatus]:
        """Statuses of everything below a folder."""
        start = prefix.rstrip("/") + "/" if prefix.rstrip("/") else ""
        with self._lock:
            statuses = [status for name, (_, status) in self.files.items() if name.startswith(start)]
        yield from sorted(statuses, key=lambda status: status.name)

    def status(self, name: str) -> FileStatus | None:
        """One status, or None."""
        with self._lock:
            return self.files[name][1] if name in self.files else None

    def read(self, name: str) -> bytes:
        """The content; FileNotFoundError where there is none."""
        with self._lock:
            if name not in self.files:
                raise FileNotFoundError(f"{self.root}/{name}")
            return self.files[name][0]

    def put_if_absent(self, name: str, data: bytes, *, make_folders: bool = True) -> bool:
        """Create, or return False."""
        with self._lock:
            if name in self.files:
                return False
            self.put(name, data)
            return True

    def put(self, name: str, data: bytes) -> None:
        """Create or replace."""
        check_writable(f"{self.root}/{name}")
        with self._lock:
            now = options.clock()
            self.files[name] = data, FileStatus(name, len(data), now, str(next(self._writes)))

    def set_modification_time(self, name: str, milliseconds: int) -> None:
        """Give a file another age, as tests of time travel and clean-up need."""
        with self._lock:
            data, status = self.files[name]
            self.files[name] = data, FileStatus(name, status.size, milliseconds, status.tag)

    def delete(self, name: str) -> None:
        """Remove; an absent file is fine."""
        check_writable(f"{self.root}/{name}")
        with self._lock:
            self.files.pop(name, None)

    def open_input(self, name: str) -> pa.NativeFile:
        """A reader of the content."""
        import pyarrow as pa

        return pa.BufferReader(self.read(name))

    def open_output(self, name: str) -> pa.NativeFile:
        """A writer of a new file, which is there once it is closed."""
        import pyarrow as pa

        check_writable(f"{self.root}/{name}")
        with self._lock:
            if name in self.files or name in self._begun:
                raise FileExistsError(f"{self.root}/{name}")
            self._begun.add(name)
        return pa.PythonFile(MemoryFile(partial(self._end, name)), mode="w")

    def _end(self, name: str, data: bytes) -> None:
        self.put(name, data)
        self._begun.discard(name)

    def resolve(self, path: str) -> tuple[LogStore, str]:
        """Names of this table as they are, others by path or URI."""
        return elsewhere(self, path)

    def local_path(self, name: str) -> None:
        """Nowhere on this machine's file system."""
        return None


# -- a store that misbehaves -------------------------------------------------------------------


@dataclass(frozen=True)
class Pass:
    """The put goes through."""


@dataclass(frozen=True)
class Lose:
    """A rival is first: its lines (actions, dicts or JSON text) are written under the same name."""

    rival: tuple[Action | Mapping[str, Any] | str, ...]


@dataclass(frozen=True)
class LoseResponse:
    """The put goes through and the answer is lost: an OSError."""

    error: str = "connection reset"


@dataclass(frozen=True)
class AnswerExists:
    """The put goes through and a retry below us answers: it exists already."""


@dataclass(frozen=True)
class Fail:
    """Nothing is written, and an OSError leaves that open."""

    error: str = "no space left on device"


Step = Pass | Lose | LoseResponse | AnswerExists | Fail | Callable[[LogStore, str, bytes], bool]


class ScriptedStore:
    """A store whose ``put_if_absent`` follows a script, one step a call, and then is honest.

    A step is one of the classes above or a function of (store, name, data) that returns the answer.
    ``calls`` counts every method by name; ``puts`` lists the names asked to be put if absent.

    >>> store = ScriptedStore(MemoryStore(), [LoseResponse()])
    >>> store.put_if_absent("_delta_log/a", b"1")
    Traceback (most recent call last):
        ...
    OSError: connection reset
    >>> store.read("_delta_log/a"), store.calls["put_if_absent"]
    (b'1', 1)
    """

    def __init__(self, inner: LogStore | None = None, script: Iterable[Step] = ()) -> None:
        self.inner: LogStore = inner if inner is not None else MemoryStore()
        self.script: deque[Step] = deque(script)
        self.calls: Counter[str] = Counter()
        self.puts: list[str] = []
        self.root = self.inner.root
        self.is_partial_write_visible = self.inner.is_partial_write_visible
        self.is_final: bool = self.inner.is_final

    def put_if_absent(self, name: str, data: bytes, **settings: bool) -> bool:
        """As the next step of the script says."""
        self.calls["put_if_absent"] += 1
        self.puts.append(name)
        step = self.script.popleft() if self.script else Pass()
        if isinstance(step, Fail):
            raise OSError(step.error)
        if isinstance(step, Lose):
            self.inner.put_if_absent(name, to_lines(step.rival))
        elif callable(step):
            return step(self.inner, name, data)
        elif isinstance(step, AnswerExists):
            self.is_final = False
        done = self.inner.put_if_absent(name, data, **settings)
        if isinstance(step, LoseResponse):
            raise OSError(step.error)
        return done and not isinstance(step, AnswerExists)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.inner, name)
        if not callable(attribute):
            return attribute

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            return attribute(*args, **kwargs)

        return counted

    def resolve(self, path: str) -> tuple[LogStore, str]:
        """Names of this table stay with this store."""
        self.calls["resolve"] += 1
        store, name = self.inner.resolve(path)
        return (self if store is self.inner else store), name  # type: ignore[return-value]


# -- tables ------------------------------------------------------------------------------------


def to_lines(lines: Iterable[Action | Mapping[str, Any] | str]) -> bytes:
    """The content of a commit of actions, dicts and ready JSON text, one a line."""
    texts = []
    for line in lines:
        if isinstance(line, Action):
            texts.append(line.to_json())
        else:
            texts.append(line if isinstance(line, str) else json.dumps(line, separators=(",", ":")))
    return "\n".join(texts).encode() + b"\n"


def add(
    path: str, partition_values: Mapping[str, str | None] | None = None, **more: Any
) -> dict[str, Any]:
    """An ``add`` as a dict with wire names; keywords replace or add fields.

    >>> add("a", size=5)["add"]["size"]
    5
    """
    value = {"path": path, "partitionValues": dict(partition_values or {}), "size": 1,
             "modificationTime": 1, "dataChange": True, **more}
    return {"add": value}


def remove(path: str, **more: Any) -> dict[str, Any]:
    """A ``remove`` as a dict with wire names.

    >>> remove("a")["remove"]["deletionTimestamp"]
    1
    """
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True, **more}}


@dataclass
class TableBuilder:
    """Writes commits as they are given, unchecked: what a peer, or a broken writer, may leave.

    ``table`` is a store, path or URI. Methods return the builder, so that calls chain.
    """

    table: str | os.PathLike[str] | LogStore = field(default_factory=MemoryStore)
    version: int = -1

    def __post_init__(self) -> None:
        self.store: LogStore = store_for(self.table)

    @property
    def log(self) -> DeltaLog:
        """The table's log, as the process shares it."""
        from deltanb.transaction.delta_log import DeltaLog

        return DeltaLog.for_table(self.store)

    def create(
        self,
        schema: str | Mapping[str, Any] = "id long",
        *,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        protocol: Mapping[str, Any] | None = None,
        table_id: str = "00000000-0000-0000-0000-000000000000",
    ) -> TableBuilder:
        """Version 0: a protocol and a metaData. ``schema`` is "name type, …" or a schema's dict."""
        fields = _schema(schema) if isinstance(schema, str) else schema
        metadata = {
            "id": table_id, "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(fields), "partitionColumns": list(partition_by),
            "configuration": dict(properties or {}), "createdTime": 1,
        }
        versions = protocol or {"minReaderVersion": 1, "minWriterVersion": 2}
        self.commit({"protocol": versions}, {"metaData": metadata})
        note_made(self.log.place_of_ids(Metadata.from_value(metadata)))
        return self

    def commit(
        self, *lines: Action | Mapping[str, Any] | str, version: int | None = None
    ) -> TableBuilder:
        """Write a commit of these lines, at the next version unless one is given."""
        self.version = self.version + 1 if version is None else version
        if not self.store.put_if_absent(commit_name(self.version), to_lines(lines)):
            raise InvalidArgument(f"{self.store.root} has version {self.version} already")
        return self

    def put(self, name: str, data: bytes | str) -> TableBuilder:
        """Write any file, over what is there."""
        self.store.put(name, data.encode() if isinstance(data, str) else data)
        return self

    def damage(self, version: int, data: bytes | str) -> TableBuilder:
        """Replace the content of a commit."""
        return self.put(commit_name(version), data)

    def delete(self, *versions: int) -> TableBuilder:
        """Delete commits' files."""
        for version in versions:
            self.store.delete(commit_name(version))
        return self


def _schema(text: str) -> dict[str, Any]:
    columns = (column.split(None, 1) for column in re.split(r",(?![^(]*\))", text))
    return {"type": "struct", "fields": [
        {"name": name, "type": kind.strip(), "nullable": True, "metadata": {}}
        for name, kind in columns
    ]}


__dir__ = offered(globals())
