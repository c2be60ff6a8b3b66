"""One data file of a table, read as rows of the table's present schema.

What lives here: what a scan asks of every file (:class:`Scan`), and the reading of one file under
it: columns found, types widened, partition values put in, deleted rows left out, the row filter
applied.
Commands that rewrite files read through here too.
What it does not know: which files to read, and threads.

Order of work on a batch: deletion vector (it counts the file's own rows), conversion, partition
columns, filter, the columns that the filter did without, projection.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltanb.actions import AddFile, decode_path
from deltanb.engines.arrow import page_bounds, row_groups
from deltanb.engines.arrow.conform import (
    Conversion,
    Place,
    check_type_changes,
    compile_conversion,
    find_field,
)
from deltanb.engines.arrow.file_rows import FileRows, Rows, positions_of
from deltanb.engines.arrow.row_ids import Fields, columns_of, filled
from deltanb.engines.arrow.vector_files import VectorFiles
from deltanb.errors import DataFileNotFound, InvalidArgument, InvalidTable, TableNotFound, require
from deltanb.parquet.file import SafeFile, open_parquet
from deltanb.parquet.pages import Pages
from deltanb.schema.column_mapping import mode_of, physical_name
from deltanb.schema.types import StructField, StructType
from deltanb.sql.coercion import arrow_scalar
from deltanb.store.base import open_input
from deltanb.store.paths import place_of
from deltanb.text.damage import reading
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import shown

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.sql.conditions import Where
    from deltanb.sql.predicates import Predicate
    from deltanb.store.base import LogStore

__all__ = [
    "BATCH_ROWS", "ROW_POSITION", "Known", "Scan", "Shared", "opened", "plan", "plan_for", "read_data_file",
    "with_row_ids",
]

BATCH_ROWS = 65_536  # large enough for Arrow's kernels, small enough that wide rows stay in memory
_WAY_OUT = "Restore it from a copy, or remove it from the table with a commit"
# INT96 in nanoseconds would wrap years such as 9999 around.
_CODED: dict[str, Any] = {"coerce_int96_timestamp_unit": "us", "page_checksum_verification": True}
# With offsets of 64 bits Arrow decodes texts in two thirds of the time; they become shorter in next to none.
# It then reads none as dictionaries.
_OPTIONS = {**_CODED, "binary_type": pa.large_binary()}
_FEW = {**_OPTIONS, "pre_buffer": False, "buffer_size": 1 << 16}
_CHUNK_IN_FOOTER, _GROUP_BYTES = 256, 8 << 20
"""Bytes that a footer has for a column of a row group, and that a row group has, as far as one can guess."""
_LEAST_END, _MOST_END = 1 << 14, 1 << 20
"""Bytes of a file's end that are asked for first, where its footer is looked for."""
_AT_ONCE = 1 << 18
"""Bytes of a file that is asked for as a whole, whatever is wanted: its footer alone would take as long."""
PAGED_ROWS = 1 << 15
"""Rows of a row group from which on its pages are looked at; fewer are decoded in the time that takes."""
PAGED_BYTES = 4 << 20
"""Bytes of what is read of a row group elsewhere, from which on its page index is asked for, in a request of
its own."""
ROW_POSITION = "__row_position"  # the column that positions=True adds; int64, from zero


@dataclass(frozen=True)
class Scan:
    """What is read from each file: made once, used for many files.

    ``columns`` are the result's fields in its order; ``fields`` are those and the ones that only
    the predicate needs. ``tracked``, the last of them, are the columns of row ids and commit versions, where
    these are wanted and the table has them. ``table`` and ``version`` name the snapshot in errors.
    ``groups`` says which row groups are read, where somebody knows more than the predicate does;
    ``judged`` are the columns that it asks statistics of. ``width`` is how many columns the table has (0: not
    known). ``vectors`` reads the deletion vectors of all files.
    """

    store: LogStore
    columns: tuple[StructField, ...]
    fields: tuple[StructField, ...]
    partition_columns: frozenset[str] = frozenset()
    mode: str = "none"
    predicate: Predicate | None = None
    table: str = ""
    version: int | None = None
    tracked: Fields = ()
    groups: row_groups.Judge | None = None
    judged: tuple[StructField, ...] = ()
    width: int = 0
    vectors: VectorFiles = dataclasses.field(default_factory=VectorFiles, compare=False, repr=False)

    @property
    def takes_all(self) -> bool:
        """Whether all rows are wanted, with all columns."""
        return self.predicate is None and self.groups is None and len(self.fields) >= self.width > 0

    @cached_property
    def schema(self) -> pa.Schema:
        """Of the batches that a scan returns."""
        return StructType(self.columns).to_arrow()

    @cached_property
    def read_schema(self) -> pa.Schema:
        """Of the rows the predicate sees."""
        return StructType(self.fields).to_arrow()

    @cached_property
    def filter(self) -> pc.Expression | None:
        """The predicate over these rows."""
        if self.predicate is None:
            return None
        return self.predicate.to_expression(self.read_schema, as_filter=True)

    @cached_property
    def condition(self) -> row_groups.Judge | None:
        """What the statistics of row groups are asked."""
        if self.groups is not None or self.predicate is None:
            return self.groups
        return row_groups.Condition(self.predicate, self.partition_columns)


def plan(
    snapshot: Snapshot,
    columns: Sequence[str] | None = None,
    where: str | Predicate | None = None,
    *, row_ids: bool = False, vectors: VectorFiles | None = None,
) -> Scan:
    """What to read from each file of ``snapshot``.

    ``columns`` are top-level names in any case (None: all); ``where`` is a predicate on any column.
    ``row_ids`` adds the two columns of :mod:`deltanb.engines.arrow.row_ids`, where the table tracks rows.
    ``vectors`` reads deletion vectors, where somebody has read some already.

    Raises:
        TableNotFound: there is no table yet.
        UnsupportedProtocol: the table, or a column that is asked for, needs what is not supported.
        InvalidArgument: a column that is not there, or is named twice.
        InvalidPredicate, UnsupportedPredicate: from the predicate.
    """
    table = str(snapshot.log.path)
    if snapshot.version < 0:
        raise TableNotFound(f"there is no table at {table}: create one first", path=table)
    scan = plan_for(snapshot, snapshot.schema, columns, where, vectors=vectors)
    return with_row_ids(scan, snapshot) if row_ids else scan


def with_row_ids(scan: Scan, snapshot: Snapshot) -> Scan:
    """The scan with the row id and the commit version of each row, where the snapshot's table tracks rows."""
    tracked = columns_of(snapshot.metadata, snapshot.protocol)
    return replace(scan, columns=(*scan.columns, *tracked), fields=(*scan.fields, *tracked), tracked=tracked)


def plan_for(
    snapshot: Snapshot,
    schema: StructType,
    columns: Sequence[str] | None = None,
    where: Where | None = None,
    constants: Collection[str] = (),
    *, vectors: VectorFiles | None = None,
) -> Scan:
    """As :func:`plan`, for rows of another schema than the snapshot's own.

    ``constants`` are columns of it that are not in the files: their values are found, as texts, among
    the partition values of each file.
    """
    snapshot.check_readable()
    chosen = _chosen(schema, columns)
    predicate = None if where is None else _parsed(where, schema)
    fields = chosen + _needed(schema, predicate, chosen)
    check_type_changes(fields)
    names = (*snapshot.partition_columns, *constants)
    scan = Scan(
        store=snapshot.log.store, columns=chosen, fields=fields,
        partition_columns=frozenset(schema.field(name).name for name in names),
        mode=mode_of(snapshot.metadata, snapshot.protocol),
        predicate=predicate, table=str(snapshot.log.path), version=snapshot.version, width=len(schema.fields),
        vectors=vectors or VectorFiles(),
    )
    _ = scan.schema, scan.filter  # what cannot be held or evaluated is refused before a file is read
    return scan


def read_data_file(
    scan: Scan, file: AddFile | Mapping[str, Any], *, positions: bool = False,
    only: BitMap64 | None = None, batch_rows: int = BATCH_ROWS, part: tuple[int, int] = (0, 1),
    parquet: SafeFile | None = None, shared: Shared | None = None,
) -> Generator[pa.RecordBatch, None, None]:
    """The live rows of one file that the scan asks for, in batches of at most ``batch_rows``.

    ``file`` is an action or a row of a snapshot's files. ``positions`` adds the column
    ``ROW_POSITION``, each row's position in the Parquet file, by which a deletion vector names it.
    ``only``: of the live rows, those at these positions. ``part``: (number, parts), of the row groups.
    ``parquet``: the file, where it is open already. ``shared``: what opens it for all of its parts.

    Raises:
        DataFileNotFound: the file, or its deletion vector, is gone.
        InvalidTable: the file cannot be read as this table's.
    """
    row = _row(file)
    path = decode_path(row["path"])
    deleted = None
    if row.get("deletion_vector") is not None:
        deleted = scan.vectors.load(scan.store, row["deletion_vector"], data_file=path)
    few = batch_rows < BATCH_ROWS
    at_once = _MOST_END if scan.takes_all and only is None else _AT_ONCE
    opening: AbstractContextManager[SafeFile] = opened(
        scan.store, path, scan.table, scan.version, few, Known(row.get("size"), scan.width, at_once))
    if parquet is not None:
        opening = nullcontext(parquet)
    elif shared is not None:
        opening = shared.opened(opening)
    with opening as parquet:
        if deleted and deleted.max() >= parquet.metadata.num_rows:
            raise InvalidTable(
                f"the deletion vector of {path!r} removes row {deleted.max()}, and the file has "
                f"{parquet.metadata.num_rows}. {_WAY_OUT}.", file=path)
        with naming(path):
            parquet, columns = _understood(scan, parquet, path, row, few)
            pages = Pages(parquet, _leaves(parquet, columns))
            groups = _groups(scan, parquet, columns, pages, only, part)
        rows = FileRows(parquet, pages, _divided(scan, parquet, columns), lambda: naming(path), deleted, only,
                        scan.predicate, batch_rows)
        rows.expect([group for group, _ in groups[:1 if few else None]
                     if parquet.is_at_hand or not (_is_paged(scan, parquet, pages, group) or (
                         only is not None and _has_pages(parquet, pages, group)))])
        for start, places, batch in rows.of(_of_groups(scan, parquet, columns, pages, groups)):
            if positions or scan.tracked:
                numbers = positions_of(start, batch.num_rows, places)
            if scan.tracked:
                batch = filled(batch, scan.tracked, numbers, row)
            if batch.schema.names != scan.schema.names:  # in another order, or some only for the predicate
                batch = batch.select(scan.schema.names)
            yield batch.append_column(ROW_POSITION, numbers) if positions else batch


# ---------------------------------------------------------------------------- columns


class _Columns:
    """How the columns of one file become the scan's: compiled once, applied to each batch."""

    def __init__(
        self, scan: Scan, parquet: SafeFile, path: str, partition_values: dict[str, Any]
    ) -> None:
        self.schema: pa.Schema = scan.read_schema
        stored = list(parquet.schema_arrow)
        place = Place(path)
        self.sources: list[str | None] = []
        self._steps: list[Conversion | None] = []
        self.constants: dict[str, pa.Scalar] = {}
        for field, target in zip(scan.fields, self.schema, strict=True):
            source, step = None, None
            if field.name in scan.partition_columns:
                text = _value_of(partition_values, physical_name(field, scan.mode))
                self.constants[field.name] = _partition_scalar(text, field, target.type, path)
            else:
                index = find_field(stored, field, scan.mode, place)
                if index is not None:
                    source = stored[index].name
                    step = compile_conversion(stored[index].type, field.type, scan.mode,
                                              place.inside(field.name))
            self.sources.append(source)
            self._steps.append(step)

    @property
    def stored_names(self) -> list[str]:
        """What has to be read from the file."""
        return list(dict.fromkeys(name for name in self.sources if name is not None))

    def divided(self, names: Collection[str]) -> tuple[_Columns, _Columns]:
        """The columns with one of the names, and the others."""
        places = range(len(self.schema))
        inside = [place for place in places if self.schema.field(place).name in names]
        return self._of(inside), self._of([place for place in places if place not in inside])

    def _of(self, places: Sequence[int]) -> _Columns:
        part = copy(self)
        part.schema = pa.schema([self.schema.field(place) for place in places])
        part.sources = [self.sources[place] for place in places]
        part._steps = [self._steps[place] for place in places]
        return part

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A stored batch as the table has it; columns that the file lacks are NULL."""
        arrays = []
        for source, step, field in zip(self.sources, self._steps, self.schema, strict=True):
            if source is not None:
                array = batch.column(source)
                arrays.append(array if step is None else step(array))
            elif field.name in self.constants:
                arrays.append(pa.repeat(self.constants[field.name], batch.num_rows))
            else:
                arrays.append(pa.nulls(batch.num_rows, field.type))
        if not arrays:
            return batch.select([])
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _understood(
    scan: Scan, parquet: SafeFile, path: str, row: Mapping[str, Any], few: bool
) -> tuple[SafeFile, _Columns]:
    """The file's columns; the file opened again where some of them are better read as dictionaries."""
    values = dict(row["partition_values"] or ())
    columns = _Columns(scan, parquet, path, values)
    texts = [] if few else row_groups.coded(parquet, list(parquet.schema_arrow), columns.stored_names)
    if texts:
        parquet = parquet.with_codes(texts, **_CODED)
        columns = _Columns(scan, parquet, path, values)
    return parquet, columns


def _value_of(partition_values: Mapping[str, str | None], name: str) -> str | None:
    """The text under a name, or under the same name in another case; absent is NULL."""
    if name in partition_values:
        return partition_values[name]
    return next((v for k, v in partition_values.items() if k.lower() == name.lower()), None)


def _partition_scalar(
    text: str | None, field: StructField, target: pa.DataType, path: str
) -> pa.Scalar:
    from deltanb.log.skipping import partitions  # late: it loads what runs conditions, which most do without

    try:
        return arrow_scalar(partitions.parse_value(text, field.type), target)
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise InvalidTable(
            f"the data file {path!r} has the partition value {text!r} for column {field.name!r}, "
            f"which is not of type {field.type}: {error}", file=path, column=field.name) from None


def _divided(scan: Scan, parquet: SafeFile, columns: _Columns) -> tuple[_Columns, _Columns | None]:
    """The columns that are decoded first, and those that wait for a row that the predicate wants."""
    if scan.predicate is None or parquet.metadata.num_rows < row_groups.MIN_ROWS:
        return columns, None
    first, rest = columns.divided({path[0] for path in scan.predicate.column_paths})
    return (first, rest) if first.stored_names and rest.stored_names else (columns, None)


# ---------------------------------------------------------------------------- the file


class Shared:
    """One data file of which several threads read parts: the first of them opens it, for all."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._opened: SafeFile | None = None

    @contextmanager
    def opened(self, opening: AbstractContextManager[SafeFile]) -> Iterator[SafeFile]:
        """The file for one thread, by ``opening`` where it has to be: a bucket is asked for its end once."""
        with ExitStack() as stack:
            with self._lock:
                mine = self._opened and self._opened.again()
                if mine is None:
                    mine = self._opened = stack.enter_context(opening)
            yield mine


class Known(NamedTuple):
    """What is known of a file before it is opened: how many bytes it has, as the log says (None: not known),
    how many columns, and up to how many bytes it is asked for as a whole."""

    size: int | None = None
    width: int = 0
    at_once: int = _AT_ONCE

    @property
    def end(self) -> int | None:
        """Bytes of its end that hold the footer, as far as one can guess; None where nothing is known."""
        if not self.size:
            return None
        if self.size <= self.at_once:
            return max(self.size, _LEAST_END)
        chunks = self.width * (1 + self.size // _GROUP_BYTES)
        return min(_MOST_END, max(_LEAST_END, _CHUNK_IN_FOOTER * chunks))


UNKNOWN = Known()


@contextmanager
def opened(
    store: LogStore, path: str, table: str = "", version: int | None = None, few: bool = False,
    known: Known = UNKNOWN,
) -> Iterator[SafeFile]:
    """The data file of a decoded path; ``table`` and ``version`` name in errors what needs it.

    ``few``: only the first rows are read, of a file on this machine with no more bytes than they take.
    Elsewhere a request takes longer than the bytes of a row group. ``known`` spares a bucket some bytes.

    Raises:
        DataFileNotFound: there is none.
        InvalidTable: it is not a Parquet file.
    """
    try:
        with naming(path):
            target, name = place_of(store, path, is_encoded=False).opened()
            file = open_input(target, name, known.end)
    except FileNotFoundError:
        whose = table or "the table" if version is None else f"version {version} of {table or 'the table'}"
        raise DataFileNotFound(
            f"{whose} names the data file {path!r}, which does not exist. If it was vacuumed, read a "
            "newer version; if it was deleted by hand, restore it from a copy, or remove it from the "
            "table with a commit.", path=path, version=version) from None  # its text shows the path raw
    with file:
        with naming(path):
            is_here = target.local_path(name) is not None
            parquet = open_parquet(file, **(_FEW if few and is_here else _OPTIONS))
        yield parquet


def _groups(
    scan: Scan, parquet: SafeFile, columns: _Columns, pages: Pages, only: BitMap64 | None,
    part: tuple[int, int],
) -> list[tuple[int, int]]:
    """(number, position of its first row), of the row groups of a part that may have wanted rows."""
    count = parquet.metadata.num_row_groups
    groups: Sequence[int] = range(count)
    if count != 1 or not _is_paged(scan, parquet, pages, 0):  # of a single row group its pages say more
        groups = _matching(scan, parquet, columns)
    number, parts = part
    mine = range(count * number // parts, count * (number + 1) // parts)
    chosen, stop = [], 0
    for group in range(count):
        start, stop = stop, stop + parquet.metadata.row_group(group).num_rows
        if group in groups and group in mine and (only is None or only.range_cardinality(start, stop)):
            chosen.append((group, start))
    return chosen


def _matching(scan: Scan, parquet: SafeFile, columns: _Columns) -> Sequence[int]:
    """The row groups that may have wanted rows, as the footer says."""
    if scan.condition is None:
        return range(parquet.metadata.num_row_groups)
    return row_groups.matching(
        parquet, list(parquet.schema_arrow), scan.judged or scan.fields, scan.condition,
        mode=scan.mode, constants=columns.constants)


def _is_paged(scan: Scan, parquet: SafeFile, pages: Pages, group: int) -> bool:
    """Whether the pages of a row group are judged."""
    return scan.condition is not None and bool(scan.condition.stats) and _has_pages(parquet, pages, group)


def _has_pages(parquet: SafeFile, pages: Pages, group: int) -> bool:
    """Whether the pages of a row group are looked at."""
    if not parquet.is_sound:
        return False
    metadata = parquet.metadata.row_group(group)
    if parquet.is_at_hand:
        return bool(metadata.num_rows >= PAGED_ROWS)
    size = sum(metadata.column(leaf).total_compressed_size for leaf in pages.leaves)
    return size >= PAGED_BYTES and pages.has_index(group)


def _leaves(parquet: SafeFile, columns: _Columns) -> list[int]:
    """The places of the columns among all leaves of the file."""
    places = row_groups.leaf_places(list(parquet.schema_arrow), columns.stored_names)
    return [leaf for some in places.values() for leaf in some]


def _of_groups(
    scan: Scan, parquet: SafeFile, columns: _Columns, pages: Pages, groups: Sequence[tuple[int, int]]
) -> Iterator[Rows]:
    """The rows of row groups that may be wanted; some of them, where these are at most half."""
    for group, start in groups:
        count = parquet.metadata.row_group(group).num_rows
        ranges = None
        if scan.condition is not None and _is_paged(scan, parquet, pages, group):
            ranges = page_bounds.rows_to_read(
                parquet, pages, group, list(parquet.schema_arrow), scan.judged or scan.fields, scan.condition,
                mode=scan.mode, constants=columns.constants)
            is_judged = ranges is not None or parquet.metadata.num_row_groups > 1
            if not is_judged and not _matching(scan, parquet, columns):
                continue
        if ranges is not None and 2 * sum(stop - begin for begin, stop in ranges) > count:
            ranges = None
        yield Rows(group, start, ranges, _has_pages(parquet, pages, group))


def naming(path: str) -> AbstractContextManager[None]:
    """Errors of the content, with the file's name."""
    return reading("the data file", path, way_out=_WAY_OUT)


# ---------------------------------------------------------------------------- arguments


def _row(file: AddFile | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(file, AddFile):
        return {"path": file.path, "partition_values": file.partition_values, "size": file.size,
                "deletion_vector": file.deletion_vector, "base_row_id": file.base_row_id,
                "default_row_commit_version": file.default_row_commit_version}
    return file


def _chosen(schema: StructType, columns: Sequence[str] | None) -> tuple[StructField, ...]:
    if columns is None:
        return schema.fields
    if isinstance(columns, str):
        raise InvalidArgument(f"columns={columns!r} is a string; write columns=[{columns!r}]")
    if not isinstance(columns, Iterable):
        raise InvalidArgument(f"columns={shown(columns)} is not a list of names; write columns=[\"name\"]")
    chosen: dict[str, StructField] = {}
    for name in columns:
        require(name, str, "columns", "names of columns (strings)")
        field = schema.get(name)
        if field is None:
            hint, _ = did_you_mean(name, schema.names)
            raise InvalidArgument(f"the table has no column {name!r}; {hint}", column=name)
        if field.name in chosen:
            raise InvalidArgument(f"column {field.name!r} is asked for twice", column=field.name)
        chosen[field.name] = field
    return tuple(chosen.values())


def _parsed(where: Where, schema: StructType) -> Predicate:
    from deltanb.sql import predicates  # late, as in _partition_scalar

    return predicates.parse(where, schema)


def _needed(
    schema: StructType, predicate: Predicate | None, chosen: tuple[StructField, ...]
) -> tuple[StructField, ...]:
    """The columns that the predicate looks at and the result does not have."""
    if predicate is None:
        return ()
    missing = {path[0] for path in predicate.column_paths} - {field.name for field in chosen}
    return tuple(field for field in schema.fields if field.name in missing)
