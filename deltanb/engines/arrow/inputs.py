"""What people hand to a write, as one stream of Arrow batches.

What lives here: :func:`source`, which takes Arrow tables, batches, readers and datasets, a stream of batches,
pandas and polars frames, lazy ones too, relations of DuckDB and tables of this library (anything with
``__arrow_c_stream__``), a dict of columns, or a list of dicts.
What it does not know: the table it is written to; Spark (its frames never come here).

>>> source([{"a": 1}, {"b": "x"}]).schema.names
['a', 'b']
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.types as t

from deltanb.engines.arrow import python_values
from deltanb.errors import InvalidArgument
from deltanb.log.arrow_rows import column
from deltanb.schema.types import StructType
from deltanb.text.display import Displayable
from deltanb.text.safe_text import shown

MAX_PLAIN = 100_000
_PLAIN_TYPES = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_(),
                type(None): pa.null()}
BATCH_ROWS = 1 << 20
"""Rows handled at a time: enough for Arrow's kernels to be fast, little enough for memory."""


@dataclass(frozen=True)
class Source:
    """Data to write: its Arrow schema, and its batches once."""

    schema: pa.Schema
    batches: Callable[[], Iterator[Any]]
    num_rows: int | None = None
    """Known beforehand for data in memory."""
    mixes: bool = False
    """Whether there may be row groups among the batches that are encoded already
    (:class:`~deltanb.engines.arrow.file_writer.Encoded`)."""
    plain: Callable[[], Collection[str] | None] = lambda: None
    """Asked once the first batch is there: the columns that need no dictionary in a file; None: not known."""
    columns: StructType | None = None
    """The schema in Delta's terms, where it says more than Arrow's."""


def is_spark(data: Any) -> bool:
    """Whether the data is a Spark DataFrame, asked without importing pyspark."""
    return type(data).__module__.partition(".")[0] == "pyspark"


def source(data: Any) -> Source:
    """The data as a :class:`Source`; a source comes back as it is.

    A pandas index that has a name becomes a column; one without a name is left out where it only numbers the
    rows, and refused otherwise. A lazy frame of polars is run.

    Raises:
        InvalidArgument: data of a kind that cannot be read, values no Arrow column can hold, or a pandas
            index of anything else without a name.
    """
    if isinstance(data, Source):
        return data
    opened = _source_of(data)
    return replace(opened, batches=lambda: _checked(opened.batches()))


def _source_of(data: Any) -> Source:
    library = type(data).__module__.partition(".")[0]
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif _is_table(data):  # its errors stay
        data = data.to_batches()
    elif isinstance(data, Mapping):
        names = _named(data, "the data")
        data = _table_of_columns({names[label]: values for label, values in data.items()})
    elif isinstance(data, list | tuple) and not (data and _is_batches(data[0])):
        data = _table_of_rows(data)
    elif library == "pandas" and hasattr(data, "columns"):
        data = _table_of_pandas(data)
    elif library == "polars":
        data = data.collect() if hasattr(data, "collect") else data
        for name, kind in data.schema.items() if hasattr(data, "columns") else ():
            _check_polars(name, kind)
    elif isinstance(data, Iterator | list | tuple) and not _is_batches(data):
        return _of_parts(iter(data))
    if isinstance(data, pa.Table):
        table = data
        return Source(table.schema, lambda: iter(table.to_batches(BATCH_ROWS)), table.num_rows)
    if _is_dataset(data):
        scanner = data.scanner(batch_size=BATCH_ROWS) if hasattr(data, "scanner") else data
        return Source(scanner.projected_schema, scanner.to_batches)
    if _is_batches(data):
        reader = data if isinstance(data, pa.RecordBatchReader) else _reader_of(data)
        return Source(reader.schema, lambda: iter(reader))
    raise InvalidArgument(
        f"data of type {type(data).__module__}.{type(data).__qualname__} cannot be written; give an "
        "Arrow table, batch or reader, a pandas, polars or Spark DataFrame, a dict of columns, or a "
        "list of dicts"
    )


def _checked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, whose texts are texts.

    Raises:
        InvalidArgument: one is not valid UTF-8, with its column, row and value.
    """
    start = 0
    for batch in batches:
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid:  # of what else is wrong, the write says what it means for the table
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                _check_texts(column, name, start)
        start += batch.num_rows
        yield batch


def _check_texts(array: Any, path: str, start: int | None) -> None:
    """``start`` numbers the first row; None inside of arrays, maps and dictionaries."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        _check_texts(array.storage, path, start)
    elif t.is_dictionary(kind):
        _check_texts(array.dictionary, path, None)
    elif t.is_run_end_encoded(kind):
        _check_texts(array.values, path, None)
    elif t.is_struct(kind):
        for place in range(kind.num_fields):
            _check_texts(array.field(place), f"{path}.{kind.field(place).name}", start)
    elif t.is_map(kind):
        _check_texts(array.keys, f"{path}.key", None)
        _check_texts(array.items, f"{path}.value", None)
    elif t.is_nested(kind) and hasattr(array, "flatten"):
        _check_texts(array.flatten(), f"{path}.element", None)
    elif t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind):
        for row, value in enumerate(array.cast(pa.binary()).to_pylist()):
            try:
                value is None or value.decode()
            except UnicodeDecodeError:
                where = "" if start is None else f" in row {start + row + 1}"
                raise InvalidArgument(
                    f"column {path!r} of the data has a text{where} that is not valid UTF-8: {value[:60]!r}. "
                    "Decode it by the encoding that it is in, or give the column as binary",
                    column=path) from None


def _is_table(data: Any) -> bool:
    """Whether it is a table of this library, whose rows come in batches and not one by one."""
    return isinstance(data, Displayable) and hasattr(data, "to_batches")


def _is_batches(data: Any) -> bool:
    """Whether it gives Arrow's batches: a stream, or a single one."""
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _reader_of(data: Any) -> pa.RecordBatchReader:
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        return pa.Table.from_batches([pa.record_batch(data)]).to_reader()
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"data of type {type(data).__module__}.{type(data).__qualname__} has no rows with columns, so it "
            f"cannot be written: {error}") from error


def _is_dataset(data: Any) -> bool:
    """Whether it is a dataset of pyarrow's or a scanner; asked of no other data: the module loads pandas."""
    if not any(kind.__module__ == "pyarrow._dataset" for kind in type(data).__mro__):
        return False
    import pyarrow.dataset as ds

    return isinstance(data, ds.Dataset | ds.Scanner)


def _of_parts(parts: Iterator[Any]) -> Source:
    """Batches, or tables, one after the other; the schema is that of the first."""
    first = next(parts, None)
    if first is None:
        raise InvalidArgument(
            "the stream of batches is empty, so its columns are not known; give "
            "pyarrow.RecordBatchReader.from_batches(schema, batches)")
    begin = _part(first, 1)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from begin.batches()
        for number, part in enumerate(parts, 2):
            batch = _part(part, number)
            if not batch.schema.equals(begin.schema):
                raise InvalidArgument(
                    f"batch {number} has other columns than the first: "
                    f"{batch.schema.to_string(show_field_metadata=False)!r} and "
                    f"{begin.schema.to_string(show_field_metadata=False)!r}".replace("\\n", ", "))
            yield from batch.batches()

    return Source(begin.schema, batches)


def _part(part: Any, number: int) -> Source:
    if not _is_batches(part):
        raise InvalidArgument(
            f"item {number} of the stream is {type(part).__name__}, not a batch of Arrow's; rows are given "
            "as a list of dicts")
    return _source_of(part)


def _table_of_columns(columns: Mapping[str, Any]) -> pa.Table:
    arrays = {}
    for name, values in columns.items():
        if isinstance(values, str | bytes) or not hasattr(values, "__iter__") or _is_table(values):
            raise InvalidArgument(
                f"column {name!r} is {values!r:.60}, not a list of values", column=name)
        known = isinstance(values, pa.Array | pa.ChunkedArray)
        arrays[name] = values if known else _array_of(name, values)
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        advice = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InvalidArgument(f"the columns have different numbers of values: {advice}")
    try:
        return pa.table(arrays)
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{error.object!r} is not a valid column name: it contains an unpaired surrogate",
            column=error.object) from error


def _array_of(name: str, values: Any) -> pa.Array:
    """As ``pa.array``, which of Python's integers takes those of 64 bits only; the others are decimals."""
    values = list(values) if isinstance(values, Iterator) else values  # to be looked at twice
    plain = _plain_type(values)
    if plain is not None:
        with suppress(OverflowError, UnicodeError):
            return column(list(values), plain)
    from_pandas = type(values).__module__.startswith("pandas.")
    convert = partial(_with_long_integers, from_pandas=True) if from_pandas else _with_long_integers
    kind = getattr(values, "dtype", None)
    if (_is_batches(values) if kind is None else str(kind) != "object"):  # it says of which type it is
        try:
            return pa.array(values)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise python_values.refusal(name, list(values), convert, error) from error
    return python_values.array_of(name, values if isinstance(values, list) else list(values), convert)


def _with_long_integers(values: Any, **settings: Any) -> pa.Array:
    try:
        return pa.array(values, **settings)
    except OverflowError:
        return pa.array(_without_long_integers(values), **settings)


def _plain_type(values: Any) -> pa.DataType | None:
    """The type of a short list of integers, floats, texts or truth values, which needs no ``pa.array``.

    That loads pandas at its first call; a long list takes as long anyhow.
    """
    if type(values) not in (list, tuple) or len(values) > MAX_PLAIN:
        return None
    kinds = set(map(type, values)) - {type(None)} or {type(None)}
    return _PLAIN_TYPES.get(*kinds) if len(kinds) == 1 else None


def _without_long_integers(value: Any) -> Any:
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return Decimal(value)
    if isinstance(value, Mapping):
        return {key: _without_long_integers(inner) for key, inner in value.items()}
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return value
    return [_without_long_integers(inner) for inner in value]


def _table_of_rows(rows: list[Any] | tuple[Any, ...]) -> pa.Table:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise InvalidArgument(f"row {number} is {row!r:.60}, not a dict of column names and values")
    keys = dict.fromkeys(key for row in rows for key in row)
    return _table_of_columns({
        name: [row.get(key) for row in rows] for key, name in _named(keys, "the data").items()})


def _named(labels: Iterable[Any], whose: str) -> dict[Any, str]:
    """The names of columns, which are texts; integers become texts, as in a frame without names.

    Raises:
        InvalidArgument: a label of another type, or two of one name.
    """
    names: dict[Any, str] = {}
    taken: dict[str, Any] = {}
    for label in labels:
        if isinstance(label, bool) or not (isinstance(label, str) or hasattr(label, "__index__")):
            raise InvalidArgument(
                f"a column of {whose} is named {label!r}, a {type(label).__name__}, and names are strings; "
                f"rename it{_RENAMED if whose == _PANDAS else ''}", column=str(label))
        name = names[label] = str(label)
        if name in taken:
            raise InvalidArgument(
                f"two columns of {whose} are named {name!r} ({taken[name]!r} and {label!r}); rename one"
                f"{_RENAMED if whose == _PANDAS else ''}", column=name)
        taken[name] = label
    return names


# -- pandas ----------------------------------------------------------------------------------------

_PANDAS = "the pandas frame"
_RENAMED = ', as with frame.columns = ["a", "b"]'
_LEFT_OUT = "frame.reset_index(drop=True)"
_WHOLE = frozenset({"string", "integer", "boolean", "decimal", "empty", "bytes", "floating", "time"})
"""What pandas infers of columns of objects that Arrow takes as they are."""


def _table_of_pandas(frame: Any) -> pa.Table:
    keeps = _keeps_index(frame)
    if frame.columns.nlevels > 1:
        raise InvalidArgument(
            f"the columns of the pandas frame have {frame.columns.nlevels} levels, and a table has names; "
            'join them with frame.columns = ["_".join(map(str, label)) for label in frame.columns]')
    _named(_distinct(frame.columns), _PANDAS)
    exact = {str(name): kind for name, values in frame.items() if values.dtype == object
             and (kind := _exact_type(str(name), values)) is not None}
    try:
        table = pa.Table.from_pandas(frame, preserve_index=keeps)
    except OverflowError:
        shorter = frame.apply(lambda c: c.map(_without_long_integers) if c.dtype == object else c)
        table = _converted(shorter, keeps)
    except (pa.ArrowException, TypeError, ValueError):
        table = _converted(frame, keeps)
    for name, kind in exact.items():
        table = table.set_column(
            table.schema.get_field_index(name), name,
            pa.array(frame[name], kind, from_pandas=True))
    return table.replace_schema_metadata(None)


def _distinct(labels: Any) -> list[Any]:
    """The labels of a frame's columns.

    Raises:
        InvalidArgument: one is there twice.
    """
    twice = labels[labels.duplicated()]
    if len(twice):
        raise InvalidArgument(
            f"the pandas frame has {int((labels == twice[0]).sum())} columns named {twice[0]!r}; rename them"
            f"{_RENAMED}, or leave out the others with frame.loc[:, ~frame.columns.duplicated()]",
            column=str(twice[0]))
    return list(labels)


def _exact_type(name: str, values: Any) -> pa.DataType | None:
    """The type of a column of objects that Arrow would not find; it is looked at only where it may be one."""
    from pandas.api.types import infer_dtype

    if infer_dtype(values, skipna=True) in _WHOLE:
        return None
    return python_values.check(name, list(values))


def _converted(frame: Any, keeps: bool) -> pa.Table:
    """As Arrow converts it; column by column where it refuses, to say which of the values is the reason."""
    try:
        return pa.Table.from_pandas(frame, preserve_index=keeps)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        whole = frame.reset_index() if keeps else frame
        for name, values in whole.items():
            try:
                pa.Array.from_pandas(values)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as reason:
                convert = partial(_with_long_integers, from_pandas=True)
                raise python_values.refusal(str(name), list(values), convert, reason) from error
        raise InvalidArgument(f"the pandas frame cannot be converted to Arrow: {error}") from error


def _keeps_index(frame: Any) -> bool:
    """Whether the index of a pandas frame becomes columns; else it is a number for each row at most.

    Labels without a name number the rows if they are a range, or whole numbers from 0 in any order, even
    repeated: what a frame has whose rows were filtered, sorted or put together.

    Raises:
        InvalidArgument: it would be lost, or has the name of a column.
    """
    index, names = frame.index, list(frame.index.names)
    if names == [None]:
        if len(frame) and not _numbers_rows(index):
            labels = index[:1].tolist()
            raise InvalidArgument(
                f"the index of the pandas frame has no name, so its labels ({shown(labels[0])}, …) would "
                'be lost: name it, and it becomes a column, with frame.rename_axis("name"), or leave it out '
                f"with {_LEFT_OUT}")
        return False
    if None in names:
        raise InvalidArgument(
            f"level {names.index(None)} of the index of the pandas frame has no name: name all levels, and "
            f'they become columns, with frame.rename_axis(["a", "b"]), or leave it out with {_LEFT_OUT}')
    twice = [name for name in names if name in frame.columns or names.count(name) > 1]
    if twice:
        raise InvalidArgument(
            f"the index of the pandas frame has the name {twice[0]!r}, as one of its columns has: rename it "
            f'with frame.rename_axis("name"), or leave it out with {_LEFT_OUT}', column=str(twice[0]))
    _named(names, "the index of the pandas frame")
    return True


def _numbers_rows(index: Any) -> bool:
    if type(index).__name__ == "RangeIndex":
        return True
    return index.dtype.kind in "iu" and bool(index.min() >= 0)


# -- polars ----------------------------------------------------------------------------------------

_LONG = "cast it: polars.col(name).cast(polars.Decimal(38, 0))"
_NOT_ARROW = {"Object": "its values are Python's: give them as text, or as columns of their own",
              "Int128": _LONG, "UInt128": _LONG}
"""Types of polars whose values it hands on as no type of Arrow's -> the way out."""


def _check_polars(name: str, kind: Any) -> None:
    """Refuse what polars hands on as something else.

    Raises:
        InvalidArgument: naming the column.
    """
    way = _NOT_ARROW.get(str(kind.base_type()))
    if way is not None:
        raise InvalidArgument(
            f"column {name!r} of the polars frame is of the type {kind}, which Arrow does not have; {way}",
            column=name)
    if getattr(kind, "inner", None) is not None:
        _check_polars(f"{name}.element", kind.inner)
    for field in getattr(kind, "fields", ()):
        _check_polars(f"{name}.{field.name}", field.dtype)
