"""Variants in pieces: the examples of Parquet's specification, what no writer should have written, damage."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb.engines.arrow.conform import Place, compile_conversion
from deltanb.engines.arrow.variants import MalformedVariant, put_together
from deltanb.errors import InvalidTable
from deltanb.schema.types import PrimitiveType
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable

VARIANT = PrimitiveType("variant")
PLACE = Place("part-1.parquet", "v")
EMPTY = b"\x01\x00\x00"


BINARY = pa.binary()


def piece(typed: Any = None, value: Any = BINARY) -> pa.DataType:
    parts = [("value", value), ("typed_value", typed)]
    return pa.struct([(name, kind) for name, kind in parts if kind is not None])


def group(typed: pa.DataType) -> pa.DataType:
    return pa.struct([("metadata", pa.binary()), *piece(typed)])


def read(rows: list[Any], typed: pa.DataType) -> list[Any]:
    """The rows of a column as plain Python values, as another decoder than ours understands them."""
    values, metadata = put_together(pa.array(rows, group(typed)))
    return [decoded(value, names(own)) for value, own in zip(values, metadata, strict=True)]


def names(metadata: bytes) -> list[str]:
    width = 1 + (metadata[0] >> 6)
    numbers = [int.from_bytes(metadata[1 + i * width:1 + (i + 1) * width], "little")
               for i in range((len(metadata) - 1) // width)]
    texts = metadata[1 + width * (numbers[0] + 2):]
    bounds = numbers[1:numbers[0] + 2]
    return [texts[low:high].decode() for low, high in pairwise(bounds)]


SIZES = {7: 8, 8: 5, 9: 9, 10: 17, 11: 4, 12: 8, 13: 8, 14: 4, 17: 8, 18: 8, 19: 8, 20: 16}


def decoded(value: bytes, keys: list[str]) -> Any:
    basic, header = value[0] & 3, value[0] >> 2
    if basic == 1:
        return value[1:1 + header].decode(errors="replace")
    if basic == 0:
        if header in (3, 4, 5, 6):
            return int.from_bytes(value[1:1 + 2 ** (header - 3)], "little", signed=True)
        plain = {0: None, 1: True, 2: False}
        if header in plain:
            return plain[header]
        if header in (15, 16):
            text = value[5:5 + int.from_bytes(value[1:5], "little")]
            return text.decode(errors="replace") if header == 16 else text
        return header, value[1:1 + SIZES[header]].hex()
    width = 1 + (header & 3)
    large = header >> (4 if basic == 2 else 2) & 1
    at = 5 if large else 2
    count = int.from_bytes(value[1:at], "little")
    number_width = 1 + (header >> 2 & 3)
    numbers = []
    if basic == 2:
        numbers = [int.from_bytes(value[at + i * number_width:at + (i + 1) * number_width], "little")
                   for i in range(count)]
        at += count * number_width
    offsets = [int.from_bytes(value[at + i * width:at + (i + 1) * width], "little") for i in range(count)]
    start = at + (count + 1) * width
    inner = [decoded(value[start + offset:], keys) for offset in offsets]
    if basic == 3:
        return inner
    fields = dict(zip([keys[number] for number in numbers], inner, strict=True))
    assert list(fields) == sorted(fields, key=str.encode), "fields are in the order of their names"
    return fields


# --- the specification's examples -----------------------------------------------------------------

TWO = b"\x01\x02\x00\x05\x0aemailerror"  # metadata: the names "email" and "error"


def test_a_column_of_integers() -> None:
    rows = [{"metadata": EMPTY, "value": value, "typed_value": typed} for value, typed in (
        (None, 34), (b"\x00", None), (b"\x0dn/a", None), (None, 100))]
    assert read([*rows, None], pa.int64()) == [34, None, "n/a", 100, None]
    values, _ = put_together(pa.array([*rows, None], group(pa.int64())))
    assert values == [b"\x0c\x22", b"\x00", b"\x0dn/a", b"\x0c\x64", b"\x00"]


def test_a_column_of_arrays() -> None:
    def row(value: Any, *elements: Any) -> Any:
        return {"metadata": EMPTY, "value": value, "typed_value": None if value else [
            {"value": b"\x00" if e is None else None, "typed_value": e} for e in elements]}

    rows = [row(None, "comedy", "drama"), row(None, "horror", None), None, row(None), row(b"\x00")]
    typed = pa.list_(pa.field("element", piece(pa.string()), False))
    assert read(rows, typed) == [["comedy", "drama"], ["horror", None], None, [], None]
    assert read(rows[1:], typed) == [["horror", None], None, [], None]
    sliced = put_together(pa.array(rows, group(typed)).slice(1, 3))
    assert sliced == put_together(pa.array(rows[1:4], group(typed)))


def test_a_column_of_objects() -> None:
    typed = pa.struct([pa.field("event_type", piece(pa.string()), False),
                       pa.field("event_ts", piece(pa.timestamp("us", "UTC")), False)])
    at = dt.datetime(2024, 10, 24, tzinfo=dt.timezone.utc)
    micros = (12, int(at.timestamp() * 1_000_000).to_bytes(8, "little").hex())

    def row(kind: Any = None, when: Any = None, rest: bytes | None = None, *, raw: Any = None) -> Any:
        return {"metadata": TWO, "value": rest, "typed_value": raw or {
            "event_type": kind or {}, "event_ts": when or {}}}

    def beside(number: int, text: bytes) -> bytes:  # an object of one field
        return bytes([2, 1, number, 0, len(text) + 1, len(text) << 2 | 1]) + text

    rows = [
        (row({"typed_value": "noop"}, {"typed_value": at}), {"event_type": "noop", "event_ts": micros}),
        (row({"typed_value": "login"}, {"typed_value": at}, beside(0, b"u@x")),
         {"email": "u@x", "event_type": "login", "event_ts": micros}),
        (row(rest=beside(1, b"bad")), {"error": "bad"}),
        ({"metadata": TWO, "value": b"\x0dbad", "typed_value": None}, "bad"),
        (row(None, {"typed_value": at}), {"event_ts": micros}),
        (row({"value": b"\x00"}, {"typed_value": at}), {"event_type": None, "event_ts": micros}),
        (row({"typed_value": "noop"}, {"value": b"\x1d2024-10"}),
         {"event_type": "noop", "event_ts": "2024-10"}),
        (row(), {}),
        ({"metadata": TWO, "value": b"\x00", "typed_value": None}, None),
        (None, None),
    ]
    assert read([stored for stored, _ in rows], typed) == [expected for _, expected in rows]


def test_pieces_in_pieces() -> None:
    inner = pa.struct([pa.field("lat", piece(pa.float64()), False)])
    typed = pa.struct([pa.field("at", piece(inner), False),
                       pa.field("tags", piece(pa.list_(pa.field("element", piece(pa.int8(), None), False))),
                                False)])
    row = {"metadata": EMPTY, "typed_value": {
        "at": {"typed_value": {"lat": {"typed_value": 0.5}}},
        "tags": {"typed_value": [{"typed_value": 1}, {"typed_value": None}]}}}
    half = (7, "000000000000e03f")
    # A missing element is a variant null: an array has no gaps.
    assert read([row], typed) == [{"at": {"lat": half}, "tags": [1, None]}]
    assert read([{"metadata": EMPTY}], typed) == [None], "as is a missing variant"


def test_names_are_numbered_anew_in_objects_at_every_depth() -> None:
    # {"b": [{"a": 1}, 2]} with the names a, b of which the pieces know neither.
    stored = b"\x01\x02\x00\x01\x02ab"
    inner = bytes([2, 1, 0, 0, 2]) + b"\x0c\x01"
    elements = bytes([3, 2, 0, len(inner), len(inner) + 2]) + inner + b"\x0c\x02"
    value = bytes([2, 1, 1, 0, len(elements)]) + elements
    typed = pa.struct([pa.field("c", piece(pa.string()), False)])
    row = {"metadata": stored, "value": value, "typed_value": {"c": {"typed_value": "x"}}}
    assert read([row], typed) == [{"b": [{"a": 1}, 2], "c": "x"}]
    _, (metadata,) = put_together(pa.array([row], group(typed)))
    assert names(metadata) == ["c", "b", "a"]


LARGE = {f"k{n:04}": n for n in range(300)}


def test_more_than_a_byte_counts() -> None:
    typed = pa.struct([pa.field(name, piece(pa.int32()), False) for name in LARGE])
    row = {"metadata": EMPTY, "typed_value": {name: {"typed_value": n} for name, n in LARGE.items()}}
    assert read([row], typed) == [LARGE]
    long = pa.list_(pa.field("element", piece(pa.string()), False))
    texts = ["x" * n for n in range(300)]
    values, _ = put_together(pa.array([{"metadata": EMPTY, "typed_value": [
        {"typed_value": text} for text in texts]}], group(long)))
    assert values[0][0] == (1 << 2 | 1) << 2 | 3
    assert values[0].endswith(b"\x40" + (299).to_bytes(4, "little") + b"x" * 299)


def test_fields_are_in_the_order_of_their_utf_8() -> None:
    numbers = {"\U0001f600": 1, "\uffee": 2, "Z": 3, "a": 4}
    typed = pa.struct([pa.field(name, piece(pa.int32()), False) for name in numbers])
    row = {"metadata": EMPTY, "typed_value": {name: {"typed_value": n} for name, n in numbers.items()}}
    (read_back,) = read([row], typed)
    assert list(read_back) == ["Z", "a", "\uffee", "\U0001f600"]


SCALARS: list[tuple[pa.DataType, Any, str]] = [
    (pa.bool_(), True, "04"), (pa.bool_(), False, "08"),
    (pa.int8(), -1, "0cff"), (pa.int16(), 300, "102c01"), (pa.int32(), -70_000, "1490eefeff"),
    (pa.int64(), 2**40, "180000000000010000"), (pa.int64(), 5, "0c05"),
    (pa.float32(), 1.5, "380000c03f"), (pa.float64(), -2.0, "1c00000000000000c0"),
    (pa.float64(), float("nan"), "1c000000000000f87f"),
    (pa.decimal128(9, 2), Decimal("-1.50"), "20026affffff"),
    (pa.decimal128(18, 0), Decimal(10**12), "24000010a5d4e8000000"),
    (pa.decimal128(38, 10), Decimal("1e20"), "280a" + (10**30).to_bytes(16, "little").hex()),
    (pa.decimal128(38, 0), Decimal(7), "200007000000"),
    (pa.date32(), dt.date(1970, 1, 2), "2c01000000"),
    (pa.timestamp("us", "UTC"), dt.datetime(1970, 1, 1, 0, 0, 1), "3040420f0000000000"),
    (pa.timestamp("us"), dt.datetime(1969, 12, 31, 23, 59, 59), "34c0bdf0ffffffffff"),
    (pa.timestamp("ns", "UTC"), 1, "480100000000000000"), (pa.timestamp("ns"), 1, "4c0100000000000000"),
    (pa.time64("us"), dt.time(0, 0, 1), "4440420f0000000000"),
    (pa.binary(), b"ab", "3c020000006162"), (pa.string(), "ü", "09c3bc"), (pa.string(), "", "01"),
    (pa.binary(16), uuid.UUID(int=1).bytes, "50" + "00" * 15 + "01"),
]


@pytest.mark.parametrize(("kind", "value", "encoded"), SCALARS, ids=lambda v: str(v)[:24])
def test_every_scalar_has_its_encoding(kind: pa.DataType, value: Any, encoded: str) -> None:
    array = pa.array([{"metadata": EMPTY, "typed_value": value}], group(kind))
    (variant,), _ = put_together(array)
    assert variant.hex() == encoded


# --- what no writer should have written -----------------------------------------------------------

OBJECT = pa.struct([pa.field("a", piece(pa.int64()), False)])
_A = b"\x01\x01\x00\x01a"
WRONG: list[tuple[pa.DataType, Any, str]] = [
    (OBJECT, {"metadata": _A, "value": b"\x0c\x01", "typed_value": {"a": {}}}, "not an object"),
    (OBJECT, {"metadata": _A, "value": b"", "typed_value": {"a": {}}}, "not an object"),
    (OBJECT, {"metadata": _A, "value": b"\x02\x01\x00\x00\x02\x0c\x01", "typed_value": {"a": {}}},
     "twice"),
    (OBJECT, {"metadata": _A, "typed_value": {"a": None}}, "'a' of an object is NULL"),
    (OBJECT, {"metadata": None, "value": b"\x00"}, "no metadata"),
    (OBJECT, {"metadata": b"", "value": b"\x00"}, "too early"),
    (OBJECT, {"metadata": b"\x02\x00\x00", "value": b"\x00"}, "version 2"),
    (OBJECT, {"metadata": b"\x01\x05\x00", "value": b"\x00"}, "too early"),
    (OBJECT, {"metadata": b"\x01\x02\x00\x05\x01abcde", "value": b"\x00"}, "overlap"),
    (OBJECT, {"metadata": b"\x01\x01\x00\x01\xff", "value": b"\x00"}, "not text"),
    (OBJECT, {"metadata": _A, "value": b""}, "too early"),
    (OBJECT, {"metadata": _A, "value": b"\x18\x01"}, "too early"),
    (OBJECT, {"metadata": _A, "value": b"\xfc"}, "primitive type 63"),
    (OBJECT, {"metadata": _A, "value": b"\x40\xff\xff\xff\x7f"}, "too early"),
    (OBJECT, {"metadata": _A, "value": b"\x02\x01\x09\x00\x01\x00"}, "name number 9 of 1"),
    (OBJECT, {"metadata": _A, "value": b"\x02\x02\x00\x00\x00\x00\x01\x00"}, "twice"),
    (OBJECT, {"metadata": _A, "value": b"\x13\xff\xff\xff\xff\x00"}, "too early"),
]


@pytest.mark.parametrize(("kind", "row", "why"), WRONG, ids=lambda v: str(v)[:30])
def test_pieces_that_make_no_variant_are_refused(kind: pa.DataType, row: Any, why: str) -> None:
    fine = {"metadata": EMPTY, "value": b"\x00"}
    array = pa.array([fine, row], group(kind))
    with pytest.raises(MalformedVariant, match=f"row 1: .*{why}"):
        put_together(array)
    convert = compile_conversion(array.type, VARIANT, "none", PLACE)
    assert convert is not None
    with pytest.raises(InvalidTable, match=rf"column 'v' .*'part-1.parquet'.*{why}") as caught:
        convert(array)
    assert caught.value.column == "v" and caught.value.file == "part-1.parquet"


def test_values_that_share_their_bytes_do_not_multiply() -> None:
    """Arrays of 255 times the same element, ten deep: a file of some kilobytes, and no end."""
    value = b"\x00"
    for _ in range(10):
        value = (bytes([3 | 1 << 2, 255]) + b"\x00\x00" * 255 + len(value).to_bytes(2, "little") + value)
    with pytest.raises(MalformedVariant, match="overlap"):
        put_together(pa.array([{"metadata": EMPTY, "value": value}], group(pa.int64())))


def test_a_variant_without_end_is_refused() -> None:
    value = b"\x00"
    for _ in range(5_000):
        value = bytes([3 | 3 << 2, 1]) + bytes(4) + len(value).to_bytes(4, "little") + value
    with pytest.raises(MalformedVariant, match="too deeply"):
        put_together(pa.array([{"metadata": EMPTY, "value": value}], group(pa.int64())))


@pytest.mark.parametrize(("stored", "why"), [
    (group(pa.uint64()), "uint64"), (group(pa.duration("us")), "duration"),
    (group(pa.time32("ms")), "time32"),
    (group(pa.struct([("a", pa.int64())])), "neither value nor typed_value"),
    (group(pa.struct([("a", piece(pa.int64(), pa.string()))])), "value is not binary"),
    (group(pa.list_(pa.int64())), "neither value nor typed_value"),
    (group(pa.decimal256(50, 2)), "decimal256"), (group(pa.map_(pa.string(), pa.int64())), "map"),
    (pa.struct([("metadata", pa.string()), *piece(pa.int64())]), "metadata is not binary"),
])
def test_types_that_no_variant_has_are_refused(stored: pa.DataType, why: str) -> None:
    with pytest.raises(InvalidTable, match=f"column 'v' .*{why}"):
        compile_conversion(stored, VARIANT, "none", PLACE)


SOUND = b"\x02\x02\x00\x01\x00\x05\x09\x11text" + b"\x03\x01\x00\x02\x0c\x07"


@given(st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), max_size=4),
       st.lists(st.tuples(st.integers(0, 6), st.integers(0, 255)), max_size=2), st.integers(0, 20))
def test_damage_is_refused_or_gives_a_variant(
    changes: list[tuple[int, int]], of_names: list[tuple[int, int]], cut: int
) -> None:
    value, metadata = bytearray(SOUND), bytearray(b"\x01\x02\x00\x01\x02ab")
    for data, damages in ((value, changes), (metadata, of_names)):
        for at, byte in damages:
            data[at] = byte
    row = {"metadata": bytes(metadata), "value": bytes(value[:len(value) - cut])}
    try:
        (made,), (own,) = put_together(pa.array([row], group(pa.int64())))
    except MalformedVariant:
        return
    decoded(made, names(own))  # it can be read to its end


# --- in a table -----------------------------------------------------------------------------------

def shredded_table(path: Path, stats: dict[str, Any] | None = None) -> DeltaTable:
    """Twelve rows in files of two row groups: NULL, a variant null, and objects in pieces."""
    table = create(path, pa.schema([("n", pa.int64()), ("v", VARIANT_STORAGE)]), properties={
        "delta.enableVariantShredding": "true"})
    typed = pa.struct([pa.field("id", piece(pa.int64()), False)])
    rows: list[Any] = [None, {"metadata": EMPTY, "value": b"\x00"}, *(
        {"metadata": EMPTY, "typed_value": {"id": {"typed_value": n}}} for n in range(10))]
    data = pa.table({"n": list(range(12)), "v": pa.array(rows, group(typed))})
    pq.write_table(data, path / "part.parquet", row_group_size=3)
    txn = table.start_transaction()
    (added,) = txn.write_files(pa.table({"n": [0], "v": pa.array([None], VARIANT_STORAGE)}))
    size = (path / "part.parquet").stat().st_size
    txn.commit([added.replace(path="part.parquet", size=size, stats=json.dumps(stats) if stats else None)])
    return table


VARIANT_STORAGE = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])


@pytest.mark.parametrize("stats", [
    None, {"numRecords": 12, "nullCount": {"n": 0, "v": 1}},
    {"numRecords": 12, "minValues": {"n": 0, "v": "0rAfabWhTiwQbUe0S-o32]H.-0000000000"},
     "maxValues": {"n": 11, "v": "0rAfabWhTiwQbUe0S-o32]H>^0000000000"}, "nullCount": {"n": 0, "v": 1}},
])
def test_conditions_on_a_shredded_column_skip_no_row(tmp_path: Path, stats: dict[str, Any] | None) -> None:
    table = shredded_table(tmp_path / "t", stats)
    assert table.to_arrow(where="v IS NULL")["n"].to_pylist() == [0]
    assert table.to_arrow(where="v IS NOT NULL")["n"].to_pylist() == list(range(1, 12))
    assert table.to_arrow(where="v IS NULL AND n > 5").num_rows == 0
    assert table.to_arrow(where="n > 5 AND v IS NOT NULL")["n"].to_pylist() == list(range(6, 12))
    table.log.checkpoint()
    assert table.delete("v IS NULL").metrics["numDeletedRows"] == 1
    assert table.to_arrow()["n"].to_pylist() == list(range(1, 12))


def test_shredded_rows_are_written_whole_and_described(tmp_path: Path) -> None:
    table = shredded_table(tmp_path / "t")
    before = table.to_arrow()
    table.analyze()
    (file,) = table.start_transaction().filter_files()
    assert json.loads(file.stats or "")["nullCount"] == {"n": 0, "v": 1}
    table.update({"n": "n + 100"}, where="n = 0")
    (file,) = table.start_transaction().filter_files()
    stored = pq.read_schema(tmp_path / "t" / file.path).field("v").type
    assert [one.name for one in stored] == ["metadata", "value"]
    assert table.to_arrow().sort_by("n")["v"].to_pylist()[:-1] == before["v"].to_pylist()[1:]


@pytest.mark.parametrize("kind", ["variant", "struct<v variant, n: int>"])
def test_a_variant_that_is_null_is_written(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path / "t", "id long, name string")
    table.append({"id": [1, 2], "name": ["a", "b"]})
    table.add_columns(f"v {kind}")
    table.update({"name": "'c'"}, where="id = 1")
    table.append({"id": [3], "name": ["d"]})
    table.update({"v": "NULL"}, where="id = 2")
    merge = table.merge({"id": [4]}, "target.id = source.id")
    merge.when_not_matched_insert(values={"id": "source.id"}).execute()
    assert table.to_arrow(where="v IS NULL")["id"].sort().to_pylist() == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_a_variant_that_is_null_is_written_in_elements_too(tmp_path: Path, mode: str) -> None:
    table = create(tmp_path / "t", "id long, l array<struct<b int>>, m map<string, struct<b int>>",
                   properties={"delta.columnMapping.mode": mode})
    kind = pa.map_(pa.string(), pa.struct([("b", pa.int32())]))
    lists, maps = [[{"b": 1}, None], None, []], [[("k", {"b": 2})], None, []]
    table.append({"id": [1, 2, 3], "l": lists, "m": pa.array(maps, kind)})
    table.add_columns("l.element.a variant")
    table.add_columns("m.value.a variant")
    table.update({"id": "id + 1"})
    rows = pa.table({"id": [1, 5], "l": [[], [{"b": 3}]], "m": pa.array([[], [("k", {"b": 4})]], kind)})
    table.append(rows.slice(1))
    columns = table.to_arrow().sort_by("id").to_pydict()
    assert columns["l"] == [[{"b": 1, "a": None}, None], None, [], [{"b": 3, "a": None}]]
    assert columns["m"] == [[("k", {"b": 2, "a": None})], None, [], [("k", {"b": 4, "a": None})]]
