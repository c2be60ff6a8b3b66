"""Which plan reads each data file on Spark: by its place, its name, and its entry in the log.

What lives here: the choice, and the files with it. Sizes and times of local files are looked up; those of
files in a bucket are taken from the log, since each lookup would be a request.
What it does not know: the plans (``plans.py``), the requested columns, Spark itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import decode_path
from deltanb.engines.spark.paths import GLOB, IN_A_BUCKET, SIMPLE, is_overlooked
from deltanb.errors import DataFileNotFound, DeltaError
from deltanb.log.skipping import partitions
from deltanb.schema.types import StructField
from deltanb.store.paths import place_of

if TYPE_CHECKING:
    from deltanb.engines.arrow.data_file import Scan
    from deltanb.engines.spark.connectors import Connector
    from deltanb.store.base import LogStore


@dataclass(slots=True)
class File:
    """One data file: its row in the list of files, its path and size, and its entry in the log."""

    place: int
    local: str
    """Where Spark finds it: a path of this machine, or Hadoop's of a bucket."""
    size: int
    modified: int
    """In ms since 1970."""
    values: Mapping[str, str | None] = field(default_factory=dict)
    vector: Mapping[str, Any] | None = None


@dataclass
class Groups:
    """Files by plan."""

    listed: list[File] = field(default_factory=list)
    plain: list[File] = field(default_factory=list)
    hive: list[File] = field(default_factory=list)
    joined: list[File] = field(default_factory=list)
    vectors: list[File] = field(default_factory=list)
    process: list[int] = field(default_factory=list)


class Choice:
    """How the files of one read are divided among plans."""

    def __init__(
        self, scan: Scan, partition_by: Sequence[tuple[StructField, str]], *,
        lists: bool, needs_values: bool, tracked: bool, connector: Connector | None = None,
    ) -> None:
        """``partition_by`` are columns and their physical names. With ``lists``, Spark can take a list of
        files; with ``needs_values``, the log's values are read with the rows, with ``tracked``, row ids, too.
        With a ``connector``, Spark reads files in a bucket."""
        self.connector = connector
        self.scan, self.partition_by = scan, partition_by
        self.lists, self.needs_values, self.tracked = lists, needs_values, tracked
        self.trusted: dict[tuple[str, str], bool] = {}

    def groups(self, files: pa.Table) -> Groups:
        """The files by plan, in the order of the list."""
        groups, seen = Groups(), set[str]()
        files = files.select(["path", "partition_values", "deletion_vector", "size", "modification_time"])
        others = self._listed_at_once(files, groups, seen) if self.lists else None
        rows = files if others is None else files.take(others)
        places = range(files.num_rows) if others is None else others.to_pylist()
        for place, row in zip(places, rows.to_pylist(), strict=True):
            path = decode_path(row["path"])
            store, name = place_of(self.scan.store, path, is_encoded=False).opened()
            local = self._where(store, name)
            # A path that Spark got twice would match both entries of the log in the join by path.
            is_new = local not in seen
            seen.add(local or "")
            if local is None or not is_new or is_overlooked(os.path.basename(local)):
                groups.process.append(place)
                continue
            size_and_time = row["size"], row["modification_time"]
            file = self._file(
                place, local, path, size_and_time, row["partition_values"], row["deletion_vector"])
            if file.vector is not None:
                groups.vectors.append(file)
            elif self.lists:
                groups.listed.append(file)
            elif not self.needs_values:
                groups.plain.append(file)
            elif self.tracked:  # without a row id in the file, the log's and the row's position give it
                groups.joined.append(file)
            elif store is self.scan.store and self._is_hive(name, file.values):
                groups.hive.append(file)
            else:
                groups.joined.append(file)
        return groups

    def _listed_at_once(self, files: pa.Table, groups: Groups, seen: set[str]) -> pa.Array | None:
        """List the files with simple paths and without deleted rows.

        Returns the places of the others; None if no file can be listed like this.
        """
        is_simple = pc.and_(pc.match_substring_regex(files.column("path").cast(pa.string()), SIMPLE),
                            pc.is_null(files.column("deletion_vector")))
        places = pc.indices_nonzero(is_simple)
        names = files.column("path").take(places).to_pylist()
        local_paths: list[str]
        if self.connector is not None:
            root = self.connector.root.rstrip("/")
            local_paths = [f"{root}/{name}" for name in names]
        else:
            local_paths = [local for local in map(self.scan.store.local_path, names) if local is not None]
        seen.update(local_paths)
        if len(seen) < len(names) or not names:  # elsewhere, or one of them named twice
            seen.clear()
            return None
        sizes_and_times: Iterable[tuple[int, int]] = repeat((0, 0))  # local files are looked up
        if self.connector is not None:
            sizes_and_times = zip(
                files.column("size").take(places).to_pylist(),
                files.column("modification_time").take(places).to_pylist(), strict=True)
        groups.listed.extend(map(self._file, places.to_pylist(), local_paths, names, sizes_and_times))
        return pc.indices_nonzero(pc.invert(is_simple))

    def _where(self, store: LogStore, name: str) -> str | None:
        """A file's path for Spark; None if Spark cannot reach it."""
        path = self.connector.path_of(store, name) if self.connector is not None else None
        return store.local_path(name) if path is None else path

    def _file(
        self, place: int, local: str, path: str, size_and_time: tuple[int, int], values: Any = (),
        vector: Mapping[str, Any] | None = None,
    ) -> File:
        if self.connector is not None and IN_A_BUCKET.match(local):
            return File(place, local, *size_and_time, dict(values or ()), vector)
        try:
            # Not the log's size: if that were too small, Spark would lose the rows beyond it.
            status = os.stat(local)
        except (OSError, ValueError):
            raise _gone(self.scan, path) from None
        modified = status.st_mtime_ns // 1_000_000
        return File(place, local, status.st_size, modified, dict(values or ()), vector)

    def _is_hive(self, name: str, values: Mapping[str, str | None]) -> bool:
        """Whether the folders have exactly the log's values, in a form that Spark reads the same way."""
        texts = {physical: values.get(physical) for _, physical in self.partition_by}
        return (os.path.dirname(name) == partitions.hive_path(texts)
                and not GLOB.intersection(self.scan.store.local_path(name) or "")
                and all(self._is_plain_text(f, texts[name]) for f, name in self.partition_by))

    def _is_plain_text(self, f: StructField, text: str | None) -> bool:
        if not text:
            return True
        key = (f.name, text)
        if key not in self.trusted:
            try:
                again = partitions.format_value(partitions.parse_value(text, f.type), f.type)
            except (DeltaError, ValueError):
                again = None  # the join's typed values say what is wrong with it
            self.trusted[key] = text == again
        return self.trusted[key]


def _gone(scan: Scan, path: str) -> DataFileNotFound:
    return DataFileNotFound(
        f"version {scan.version} of {scan.table or 'the table'} names the data file {path!r}, "
        "which does not exist. If it was vacuumed, read a newer version; if it was deleted by "
        "hand, restore it from a copy, or remove it from the table with a commit.",
        path=path, version=scan.version)
