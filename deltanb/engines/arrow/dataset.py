"""A version of a table as a dataset of pyarrow's: lazy, and pruned by what the log says of its files.

What lives here: :func:`dataset`, the refusal of what Arrow would read wrongly, and the file system through
which Arrow reads a log's store.
What it does not know: which files to read (``log/skipping``), transactions.

Arrow reads the files by itself. It takes a file for what its Parquet schema says, so all that a log says
beside it must be either nothing (deletion vectors, names of column mapping, changed types) or something that
Arrow knows, too: partition values, and bounds of columns, are given as guarantees of each file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as fs
import pyarrow.types as t

from deltanb.actions import decode_path
from deltanb.engines.arrow.data_file import naming
from deltanb.errors import DataFileNotFound, UnsupportedProtocol
from deltanb.log.skipping import partitions
from deltanb.log.skipping.stats import has_bounds, parse_stats
from deltanb.parquet.without_views import without_views
from deltanb.schema.column_mapping import mode_of, physical_schema
from deltanb.schema.types import StructType
from deltanb.schema.widening import has_changes
from deltanb.store.base import LogStore
from deltanb.store.paths import place_of

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot

__all__ = ["check", "dataset", "is_native"]

MAX_BOUNDS = 100_000
"""Bounds that are given to Arrow, each as an expression: beyond them a table would take longer to describe
than to read."""

_WAY_OUT = "read with to_batches() or to_polars()"


def dataset(snapshot: Snapshot, files: pa.Table) -> ds.Dataset:
    """The rows of ``files`` as a dataset with the snapshot's schema; of data files only ends are read.

    Raises:
        UnsupportedProtocol: Arrow would read it wrongly; ``.features`` names why.

    >>> import deltanb as dn, pyarrow.compute as pc
    >>> snapshot = dn.create("pond", {"p": ["a", "b"], "id": [1, 2]}, partition_by="p").snapshot
    >>> found = dataset(snapshot, snapshot.files)
    >>> found.to_table(columns=["id"], filter=pc.field("p") == "b").to_pydict()
    {'id': [2]}
    >>> len(list(found.get_fragments(pc.field("id") > 1)))
    1
    """
    check(snapshot, files)
    store = snapshot.log.store
    form = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    names = [decode_path(path) for path in files.column("path").to_pylist()]
    paths: Sequence[str | None] | None = local_paths(store, names)
    local, ours = fs.LocalFileSystem(), fs.PyFileSystem(_StoreFiles(store))
    places = [(path, local) if path is not None and _reads(path) else (name, ours)
              for name, path in zip(names, paths or [None] * len(names), strict=True)]
    fragments = [form.make_fragment(path, system, partition_expression=guarantee)
                 for (path, system), guarantee in zip(places, _guarantees(snapshot, files), strict=True)]
    return ds.FileSystemDataset(fragments, snapshot.schema.to_arrow(), form, ours if paths is None else local)


def _reads(path: str) -> bool:
    """Whether Arrow opens a data file on this machine by itself, and takes it for what it is: a name that is
    not text it does not take, and views it compares with nothing else."""
    try:
        with pa.OSFile(path.encode()) as file:
            return without_views(file) is file
    except UnicodeEncodeError:
        return False
    except Exception:  # it is gone, or damaged: who reads it will say so
        return True


def is_native(dataset: ds.Dataset) -> bool:
    """Whether Arrow opens all files of a dataset by itself."""
    return all(isinstance(fragment.filesystem, fs.LocalFileSystem) for fragment in dataset.get_fragments())


def local_paths(store: LogStore, names: Sequence[str]) -> list[str] | None:
    """Where the files of decoded paths are on this machine; None where one of them is elsewhere."""
    paths: list[str] = []
    for name in names:
        home, inside = place_of(store, name, is_encoded=False).opened()
        local = home.local_path(inside)
        if local is None:
            return None
        paths.append(local)
    return paths


def check(snapshot: Snapshot, files: pa.Table) -> None:
    """Refuse what Arrow, which reads Parquet files as they are, would read wrongly.

    Raises:
        UnsupportedProtocol: deletion vectors, column mapping, changed types, variants, intervals, columns of
            type void.
    """
    snapshot.check_readable()
    vectors = files.column("deletion_vector")
    if len(vectors) > vectors.null_count:
        _refuse(snapshot, "deletionVectors",
                f"{len(vectors) - vectors.null_count} of its files have deletion vectors, whose rows would "
                f"come back; {_WAY_OUT}, or rewrite these files with purge()")
    mode = mode_of(snapshot.metadata, snapshot.protocol)
    schema = snapshot.schema
    if mode == "id" or (mode == "name" and physical_schema(schema, mode).to_arrow() != schema.to_arrow()):
        _refuse(snapshot, "columnMapping",
                f"its columns have other names in data files (column mapping by {mode}); {_WAY_OUT}")
    if changed := has_changes(schema):
        _refuse(snapshot, "typeWidening",
                f"the type of {', '.join(changed)} was changed, and older files have the old one; {_WAY_OUT}")
    for field in schema.fields:
        word = next((word for word in ("variant", "void", "interval") if word in str(field.type)), None)
        if word is not None:
            _refuse(snapshot, f"{word}Type", f"column {field.name} is of type {field.type}; {_WAY_OUT}")


def _refuse(snapshot: Snapshot, feature: str, why: str) -> NoReturn:
    raise UnsupportedProtocol(
        f"version {snapshot.version} of {snapshot.log.path} cannot be read as an Arrow dataset: {why}",
        features=[feature], path=snapshot.log.path)


# -- what is known of each file ----------------------------------------------------------------------


def _guarantees(snapshot: Snapshot, files: pa.Table) -> Iterator[pc.Expression]:
    """For each file, an expression that is true of all its rows."""
    schema = snapshot.schema
    names = [schema.field(name).name for name in snapshot.partition_columns]
    values = partitions.typed_partition_values(files, schema, names)
    bounds = _Bounds(files, schema, names)
    columns = {name: values.column(name) for name in names}
    for place in range(files.num_rows):
        known = [_equal(name, column[place]) for name, column in columns.items()]
        yield reduce(and_, [*known, *bounds.of(place)], pc.scalar(True))


def _equal(name: str, value: pa.Scalar) -> pc.Expression:
    return pc.field(name) == value if value.is_valid else pc.field(name).is_null()


class _Bounds:
    """Bounds of columns by file; of floats none, whose NaN are in no bound."""

    def __init__(self, files: pa.Table, schema: StructType, partitioned: Sequence[str]) -> None:
        stored = (field for field in schema.to_arrow() if field.name not in partitioned)
        fields = [field for field in stored if has_bounds(field.type) and not t.is_floating(field.type)]
        if files.num_rows * len(fields) > MAX_BOUNDS:
            fields = fields[:MAX_BOUNDS // files.num_rows]
        self.fields = fields
        stats = parse_stats(files.column("stats"), schema, [(field.name,) for field in fields])
        self.kinds = {kind: [stats.column(f"{kind}\x1f{field.name}") for field in fields]
                      for kind in ("min", "max", "null_count")}

    def of(self, place: int) -> Iterator[pc.Expression]:
        """What is known of the columns of a file."""
        for number, field in enumerate(self.fields):
            lower, upper, nulls = (self.kinds[kind][number][place] for kind in ("min", "max", "null_count"))
            column = pc.field(field.name)
            parts = [*_bound(column.__ge__, lower, field.type), *_bound(column.__le__, upper, field.type)]
            # Arrow understands a bound, and one beside this very test, but not two bounds beside it.
            yield from parts if nulls.as_py() == 0 else (part | column.is_null() for part in parts)


def _bound(compare: Any, value: pa.Scalar, kind: pa.DataType) -> Iterable[pc.Expression]:
    """A comparison with a bound; none where it is not known, or a text that was raised above all texts."""
    if not value.is_valid:
        return []
    try:
        return [compare(pa.scalar(value.as_py(), kind))]
    except (UnicodeDecodeError, pa.ArrowException, TypeError, ValueError):
        return []


# -- files -------------------------------------------------------------------------------------------


class _StoreFiles(fs.FileSystemHandler):
    """A log's store as Arrow sees a file system: files are opened by the paths that the log has."""

    def __init__(self, store: LogStore) -> None:
        self.store = store

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StoreFiles) and self.store == other.store

    def __hash__(self) -> int:
        return hash(self.store)

    def get_type_name(self) -> str:
        """For messages."""
        return "deltanb"

    def normalize_path(self, path: str) -> str:
        """As it is."""
        return path

    def open_input_file(self, path: str) -> pa.NativeFile:
        """A data file, open."""
        store, name = place_of(self.store, path, is_encoded=False).opened()
        try:
            file = store.open_input(name)
        except FileNotFoundError:
            raise DataFileNotFound(
                f"{self.store.root} has no data file {path!r} any more; it was vacuumed, or deleted by hand. "
                "Take the dataset of a newer version", path=path) from None
        with naming(path):
            return without_views(file)

    open_input_stream = open_input_file

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        """Sizes."""
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> fs.FileInfo:
        store, name = place_of(self.store, path, is_encoded=False).opened()
        status = store.status(name)
        if status is None:
            return fs.FileInfo(path, fs.FileType.NotFound)
        return fs.FileInfo(path, fs.FileType.File, size=status.size)

    def _only_reads(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("a dataset of a Delta table is read only; write with table.append(data)")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = _only_reads
    delete_root_dir_contents = delete_file = move = copy_file = _only_reads
    open_output_stream = open_append_stream = _only_reads
