"""File statistics as typed columns, only those that a predicate needs.

What lives here: naming the needed leaves (:class:`Stat`), reading them from JSON texts
(:func:`parse_stats`) or from a checkpoint's ``stats_parsed`` (:func:`typed_stats`). Both give the same
columns. PROTOCOL.md, "Per-file Statistics".
What it does not know: predicates, partition values, where files are.

A value that is missing or not of its column's type becomes NULL, which never prunes a file. The maxima are
*upper bounds*: truncated texts, and timestamps, which are stored to the millisecond, are raised to the
largest value they may stand for. NaN is not a bound and becomes NULL.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.log.layer import Leaf
from deltanb.schema.types import StructType, arrow_type
from deltanb.sql import coercion as co

PARSED_ROWS = 1 << 13  # texts decoded at a time: their Python objects stay in the processor's cache
TEXT_PREFIX = 32  # code points that Delta keeps of a text; anything as long may have been cut
TIMESTAMP_SLACK = 999  # µs: timestamps are truncated to milliseconds
_ESCAPED = re.compile(r'[\x00-\x1f"\\]')  # escaped in JSON: msgspec takes no such name of a field
_TIE_BREAKERS = "\uffff\U0010ffff"  # what writers append to a cut maximum; \uffff is below emoji
_ABOVE_ALL_TEXT = b"\xff"  # in no UTF-8 text, and above every byte that is

Kind = Literal["num_records", "min", "max", "null_count"]
_JSON_NAMES = {"num_records": "numRecords", "min": "minValues", "max": "maxValues",
               "null_count": "nullCount"}


@dataclass(frozen=True)
class Stat:
    """One leaf of the statistics: a kind and, but for ``num_records``, a column's path."""

    kind: Kind
    path: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The column's name in the tables of this module."""
        return "\x1f".join((self.kind, *self.path)) if self.path else self.kind


NUM_RECORDS = Stat("num_records")


def stats_of(columns: Iterable[str | tuple[str, ...]]) -> list[Stat]:
    """Minimum, maximum and null count of each column, and the number of records."""
    paths = [tuple(c.split(".")) if isinstance(c, str) else c for c in columns]
    kinds: tuple[Kind, ...] = ("min", "max", "null_count")
    return [NUM_RECORDS, *(Stat(kind, path) for path in paths for kind in kinds)]


def has_bounds(data_type: pa.DataType) -> bool:
    """Whether minima and maxima of the type are recorded and can be compared."""
    return bool(co.is_number(data_type) or co.is_text(data_type) or t.is_boolean(data_type)
                or t.is_date(data_type) or (t.is_timestamp(data_type) and data_type.unit != "ns"))


def parse_stats(
    stats: pa.ChunkedArray,
    schema: StructType,
    columns: Sequence[str | tuple[str, ...]] = (),
    *,
    needed: Sequence[Stat] | None = None,
) -> pa.Table:
    """Typed statistics from JSON texts, one row each; texts that are not statistics give NULLs.

    ``columns`` selects all statistics of some columns (dotted or as tuples), ``needed`` single leaves.
    Columns of the result are named by :attr:`Stat.name`; paths are logical, the texts use the physical names
    of column mapping.

    >>> from deltanb.schema.types import PrimitiveType, StructField, StructType
    >>> schema = StructType([StructField("x", PrimitiveType("integer"))])
    >>> texts = pa.chunked_array([['{"numRecords":2,"minValues":{"x":1}}', None]])
    >>> parse_stats(texts, schema, needed=[NUM_RECORDS, Stat("min", ("x",))]).to_pydict()
    {'num_records': [2, None], 'min\\x1fx': [1, None]}
    """
    leaves = [_Leaf(stat, schema) for stat in (stats_of(columns) if needed is None else needed)]
    decoder, attributes = _decoder(tuple((leaf.json_path, _json_type(leaf.type)) for leaf in leaves))
    pieces: list[list[pa.Array]] = [[] for _ in leaves]
    for chunk in stats.chunks:
        for start in range(0, len(chunk), PARSED_ROWS):
            texts = chunk.slice(start, PARSED_ROWS)
            rows = None if decoder is None else _decode(texts, decoder)
            for piece, leaf, at in zip(pieces, leaves, attributes, strict=True):
                piece.append(leaf.of_rows(texts, rows, at))
    return pa.table({leaf.stat.name: pa.chunked_array(piece, leaf.type)
                     for leaf, piece in zip(leaves, pieces, strict=True)})


def typed_stats(
    stats: pa.ChunkedArray,
    schema: StructType,
    columns: Sequence[str | tuple[str, ...]] = (),
    *,
    needed: Sequence[Stat] | None = None,
) -> pa.Table:
    """Like :func:`parse_stats`, from the struct column ``stats_parsed`` of a checkpoint."""
    leaves = [_Leaf(stat, schema) for stat in (stats_of(columns) if needed is None else needed)]
    return pa.table({leaf.stat.name: leaf.of_struct(stats) for leaf in leaves})


def leaves_of(needed: Iterable[Stat], schema: StructType) -> list[Leaf]:
    """The statistics by their paths in the JSON, ``minValues.<physical name>``."""
    leaves = [_Leaf(stat, schema) for stat in needed]
    return [Leaf(leaf.json_path, leaf.type) for leaf in leaves]


# ---------------------------------------------------------------------------- one leaf


class _Leaf:
    """A statistic, its type and its place in the JSON."""

    def __init__(self, stat: Stat, schema: StructType) -> None:
        self.stat = stat
        physical, self.type = [], pa.int64()
        current: Any = schema
        for name in stat.path:
            field = current.field(name)
            physical.append(field.physical_name)
            current = field.type
        if stat.kind in ("min", "max"):
            self.type = arrow_type(current, ".".join(stat.path))
        self.json_path = (_JSON_NAMES[stat.kind], *physical)

    def of_rows(self, texts: pa.Array, rows: list[Any] | None, attributes: tuple[str, ...]) -> pa.Array:
        """The leaf from decoded rows, or from texts that did not decode as expected."""
        if rows is not None:
            try:
                return self.adjusted(_array(_column_of(attributes)(rows), self.type))
            except (pa.ArrowException, OverflowError, TypeError, ValueError, ArithmeticError):
                pass  # one of them is out of range: they are read one by one
        values = [_lenient(_value_at(text, self.json_path), self.type) for text in texts.to_pylist()]
        return self.adjusted(pa.array(values, self.type))

    def of_struct(self, stats: pa.ChunkedArray) -> pa.ChunkedArray:
        """The leaf of ``stats_parsed``; NULL if missing."""
        chunks = [self._of_struct_chunk(chunk) for chunk in stats.chunks]
        return pa.chunked_array(chunks, self.type)

    def _of_struct_chunk(self, chunk: pa.Array) -> pa.Array:
        for name in self.json_path:
            if not t.is_struct(chunk.type) or chunk.type.get_field_index(name) < 0:
                return pa.nulls(len(chunk), self.type)
            chunk = pc.struct_field(chunk, [chunk.type.get_field_index(name)])
        if chunk.type != self.type:
            try:
                chunk = chunk.cast(self.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return pa.nulls(len(chunk), self.type)
        return self.adjusted(chunk)

    def adjusted(self, array: pa.Array) -> pa.Array:
        """Maxima become upper bounds; NaN and negative counts become NULL."""
        if t.is_floating(self.type):
            return pc.if_else(pc.is_nan(array), pa.nulls(1, self.type)[0], array)
        if self.stat.kind in ("num_records", "null_count"):
            negative = pc.less(array, co.arrow_scalar(0, self.type))
            return pc.if_else(negative, pa.nulls(1, self.type)[0], array)
        if self.stat.kind == "max":
            if t.is_timestamp(self.type):
                return _raised_timestamps(array)
            if co.is_text(self.type):
                return _raised_texts(array)
        return array


def _raised_timestamps(array: pa.Array) -> pa.Array:
    slack = co.arrow_scalar(TIMESTAMP_SLACK, pa.int64())
    last = co.arrow_scalar(2**63 - 1 - TIMESTAMP_SLACK, pa.int64())
    micros = pc.min_element_wise(array.cast(pa.int64()), last, skip_nulls=False)
    return pc.add(micros, slack).cast(array.type)


def _raised_texts(array: pa.Array) -> pa.Array:
    prefix_length = co.arrow_scalar(TEXT_PREFIX, pa.int32())
    long = pc.greater_equal(pc.utf8_length(array), prefix_length)
    if not pc.any(long).as_py():
        return array
    prefix = pc.utf8_rtrim(array, characters=_TIE_BREAKERS).cast(pa.binary())
    ends = (co.arrow_scalar(end, pa.binary()) for end in (_ABOVE_ALL_TEXT, b""))
    raised = pc.binary_join_element_wise(prefix, *ends)
    plain = array.cast(pa.binary())
    return pc.if_else(long, raised, plain).cast(array.type, safe=False)


# ---------------------------------------------------------------------------- JSON


@lru_cache(maxsize=64)
def _decoder(leaves: tuple[tuple[tuple[str, ...], Any], ...]) -> tuple[Any, list[tuple[str, ...]]]:
    """A decoder of some leaves, by their places and types in the JSON, and the attribute path of each leaf;
    None if msgspec cannot have a field of that name.

    Creating one takes as long as reading a thousand texts with it.
    """
    if any(_ESCAPED.search(name) for path, _ in leaves for name in path):
        return None, [()] * len(leaves)
    tree: dict[str, Any] = {}
    for path, kind in leaves:
        node = tree
        for name in path[:-1]:
            node = node.setdefault(name, {})
        node[path[-1]] = kind
    places: dict[tuple[str, ...], tuple[str, ...]] = {}
    decoder = msgspec.json.Decoder(_struct(tree, (), (), places))
    return decoder, [places[path] for path, _ in leaves]


def _struct(
    tree: dict[str, Any], path: tuple[str, ...], place: tuple[str, ...],
    places: dict[tuple[str, ...], tuple[str, ...]],
) -> type[msgspec.Struct]:
    """A msgspec type that holds a tree of types; ``places`` are the attributes by their paths in the JSON."""
    fields: list[tuple[str, Any, Any]] = []
    names: dict[str, str] = {}
    for index, (name, below) in enumerate(tree.items()):
        attribute = f"f{index}"  # any text may be a column's name, but not an attribute's
        names[attribute] = name
        here = (*path, name)
        if isinstance(below, dict):
            inner = _struct(below, here, (*place, attribute), places)
            fields.append((attribute, inner, msgspec.field(default_factory=inner)))
        else:
            places[here] = (*place, attribute)
            fields.append((attribute, below | None, None))
    return msgspec.defstruct("Stats", fields, rename=names, gc=False)


@lru_cache(maxsize=256)
def _column_of(attributes: tuple[str, ...]) -> Callable[[list[Any]], list[Any]]:
    """A function that returns an attribute, possibly nested, of each row; names are those of :func:`_struct`.

    It is compiled from text, since the interpreter looks up literal attributes in a third of the time of
    ``attrgetter``.
    """
    value = ".".join(("row", *attributes))
    made: Callable[[list[Any]], list[Any]] = eval(f"lambda rows: [{value} for row in rows]")
    return made


def _json_type(data_type: pa.DataType) -> Any:
    if t.is_integer(data_type):
        return int
    if t.is_floating(data_type):
        return float | str  # NaN and the infinities are texts
    if t.is_decimal(data_type):
        return Decimal
    return bool if t.is_boolean(data_type) else str


def _decode(texts: pa.Array, decoder: Any) -> list[Any] | None:
    """One struct per text, or None if one of them is not as expected."""
    texts = texts.cast(pa.string())
    if texts.null_count:
        texts = pc.coalesce(texts, co.arrow_scalar("{}", texts.type))
    lines = _side_by_side(texts)
    try:
        rows: list[Any] = [] if lines is None else decoder.decode_lines(lines)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return rows if len(rows) == len(texts) else None


def _side_by_side(texts: pa.Array) -> pa.Buffer | None:
    """The texts as they lie in memory, which the decoder reads like lines; None unless each is in braces, so
    that no text continues one that was cut off."""
    _, edges, data = texts.buffers()
    if data is None:
        return None
    at = np.frombuffer(edges, np.int32, len(texts) + 1, 4 * texts.offset)
    characters = np.frombuffer(data, np.uint8)
    if (at[1:] - at[:-1] < 2).any() or (characters[at[:-1]] != ord("{")).any() \
            or (characters[at[1:] - 1] != ord("}")).any():
        return None
    return data.slice(int(at[0]), int(at[-1] - at[0]))


def _value_at(text: str | None, path: tuple[str, ...]) -> Any:
    """The value in one text, None if there is none."""
    try:
        value = msgspec.json.decode(text or "{}")
        for name in path:
            value = value.get(name)
    except (msgspec.MsgspecError, AttributeError, UnicodeError, RecursionError):
        return None
    return value


def _array(values: list[Any], data_type: pa.DataType) -> pa.Array:
    """Decoded values as an array; raises if one has another form."""
    if t.is_integer(data_type):
        return _numbers("q", values, pa.int64()).cast(data_type)
    if t.is_floating(data_type):
        if any(type(value) is str for value in values):
            values = [float(value) if type(value) is str else value for value in values]
        return _numbers("d", values, pa.float64()).cast(data_type, safe=False)
    if t.is_temporal(data_type) or co.is_text(data_type):
        return co.arrow_array(values, pa.string()).cast(data_type)
    return pa.array(values, data_type)


def _numbers(code: str, values: list[Any], data_type: pa.DataType) -> pa.Array:
    """A buffer of machine numbers, ten times faster than through texts."""
    try:
        return pa.Array.from_buffers(
            data_type, len(values), [None, pa.py_buffer(array(code, values))])
    except TypeError:  # not looked for before: most columns have none
        if None not in values:
            raise
    filled = array(code, [0 if value is None else value for value in values])
    buffers = [co.validity(values), pa.py_buffer(filled)]
    return pa.Array.from_buffers(data_type, len(values), buffers)


def _lenient(value: Any, data_type: pa.DataType) -> Any:
    """One value if it can be parsed, else None."""
    try:
        if value is None or isinstance(value, bool) != t.is_boolean(data_type):
            return None
        if isinstance(value, str):
            if t.is_timestamp(data_type) and data_type.tz and not _has_zone(value):
                return None  # whose midnight it is cannot be known
            return co.read_text(value, data_type)
        if t.is_boolean(data_type):
            return value
        if isinstance(value, float) and t.is_decimal(data_type):
            return None  # the digits are lost already
        if t.is_decimal(data_type):
            return co.to_decimal(Decimal(value), data_type)
        if t.is_floating(data_type):
            return float(value)
        if t.is_integer(data_type) and value == int(value):
            return co.in_range(int(value), data_type)
    except (ValueError, OverflowError, TypeError, ArithmeticError):
        pass
    return None


def _has_zone(text: str) -> bool:
    return text.endswith("Z") or "+" in text[10:] or "-" in text[10:]
