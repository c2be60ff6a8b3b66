"""Keys: bytes that sort as their tuples do, and give them back."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb.errors import InvalidArgument
from deltanb.locks.core import keys
from deltanb.locks.core.keys import decode, encode

UTC = timezone.utc
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=11))])
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "integer": st.one_of(st.integers(-300, 300), st.integers(), st.integers(-(2**1300), 2**1300)),
    "float": st.floats(allow_nan=False),
    "decimal": st.one_of(st.decimals(allow_nan=False, allow_infinity=False),
                         st.decimals(-1000, 1000, places=2)),
    "text": st.text(st.one_of(st.characters(), st.sampled_from("\0\1\2ab\x7f\x80"))),
    "bytes": st.binary(),
    "date": st.dates(),
    "timestamp": st.datetimes(),
    "moment": st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=ZONES),
}
ANY = st.recursive(st.one_of(st.none(), *COLUMNS.values()),
                   lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


def ranked(value: Any) -> Any:
    """A value that Python compares although None and NaN are among its kind."""
    if isinstance(value, tuple):
        return tuple(map(ranked, value))
    return (0,) if value is None else (2,) if value != value else (1, value)


@st.composite
def two_rows(draw: st.DrawFn) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Two rows of the same columns, the second one often with the beginning of the first."""
    columns = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3))

    def row() -> tuple[Any, ...]:
        kinds = [st.one_of(st.none(), COLUMNS[name], st.just(math.nan) if name == "float" else st.nothing())
                 for name in columns]
        return tuple(map(draw, kinds))

    one, other = row(), row()
    same = draw(st.integers(0, len(columns)))
    return one, (*one[:same], *other[same:])


@given(two_rows())
def test_bytes_sort_as_rows_do(rows: tuple[tuple[Any, ...], tuple[Any, ...]]) -> None:
    one, other = map(ranked, rows)
    first, second = map(encode, rows)
    assert (first < second, first == second) == (one < other, one == other)


@given(st.tuples(two_rows(), two_rows()))
def test_tuples_in_tuples_sort_as_they_do(rows: Any) -> None:
    one, other = (rows[0][0], rows[0][1]), (rows[0][1], rows[0][0])
    assert (encode(one) < encode(other)) == (ranked(one) < ranked(other))


@given(st.lists(ANY, max_size=4).map(tuple))
def test_a_key_gives_its_tuple_back(values: tuple[Any, ...]) -> None:
    decoded = decode(encode(values))
    assert decoded == values and repr(tuple(map(type, decoded))) == repr(tuple(map(type, values)))


@given(st.lists(ANY, max_size=3).map(tuple), st.lists(ANY, max_size=3).map(tuple))
def test_bytes_begin_others_where_the_tuple_does(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert encode(one + other).startswith(encode(one))
    if other:
        assert encode(one) < encode(one + other)
    is_beginning = encode(other[:len(one)]) == encode(one)
    assert encode(other).startswith(encode(one)) == is_beginning


def test_types_in_their_order() -> None:
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    values = [None, False, True, -(2**2000), -1, 0, 1, 2**2000, -math.inf, -1.5, 0.0, 5e-324, math.inf,
              math.nan, Decimal("-1E+9"), Decimal(0), Decimal("1E-9"), "", "\0", "\1", "z", "é", "\U0001f600",
              b"", b"\0", b"\xff", date(1, 1, 1), date(2024, 1, 1), datetime(1, 1, 1), datetime(2024, 1, 1),
              moment, (), (None,), (None, None), (1,)]
    encoded = [encode((value,)) for value in values]
    assert encoded == sorted(encoded) and len(set(encoded)) == len(encoded)


def test_equal_values_have_one_key() -> None:
    for one, other in ((0.0, -0.0), (Decimal("1.0"), Decimal("1.00")), (Decimal("0"), Decimal("-0.0")),
                       (datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
                        datetime(2024, 1, 1, tzinfo=UTC)), (math.nan, -math.nan)):
        assert encode((one,)) == encode((other,))
    assert encode((1,)) != encode((True,)) != encode((1.0,)) != encode((Decimal(1),))
    assert math.isnan(decode(encode((math.nan,)))[0])


class Text(str):
    """Text of a kind that would come back as another one."""


NESTED: Any = ()
for _ in range(60):
    NESTED = (NESTED,)


@pytest.mark.parametrize(("values", "pattern"), [
    ([1], "a tuple, found list"),
    ((1, [2]), "found builtins.list"),
    ((Text("a"),), "found tests.locks.core.test_keys.Text"),
    ((bytearray(b"a"),), "found builtins.bytearray"),
    ((timedelta(1),), "found datetime.timedelta"),
    (((1j,),), "found builtins.complex"),
    ((Decimal("NaN"),), "a finite number"),
    ((datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))),), "the years 1 to 9999"),
    (NESTED, "no more than 50"),
])
def test_other_values_are_refused_by_name(values: Any, pattern: str) -> None:
    with pytest.raises(InvalidArgument, match=pattern):
        encode(values)


@given(st.binary(max_size=12))
def test_other_bytes_are_no_keys(key: bytes) -> None:
    values = keys.values_of(key)
    if values is None:
        with pytest.raises(InvalidArgument, match="not a key"):
            decode(key)
    else:
        assert encode(values) == key


def test_the_places_of_a_table() -> None:
    partition = keys.partition_key(["2024", None])
    file, row = keys.file_key(["2024", None], "a.parquet"), keys.row_key(["2024", None], (7, "x"))
    assert [keys.level(key) for key in (keys.table_key(), partition, file, row)] == list(keys.LEVELS)
    assert keys.parents(keys.table_key()) == [] and keys.parents(partition) == [b""]
    assert keys.parents(file) == keys.parents(row) == [b"", partition]
    assert decode(file) == (("2024", None), "a.parquet") and decode(row) == (("2024", None), (7, "x"))
    assert sorted([row, file, partition, b""]) == [b"", partition, file, row]


PARTITIONS = st.lists(st.one_of(st.none(), COLUMNS["text"]), max_size=3)


@given(PARTITIONS, st.one_of(COLUMNS["text"], st.lists(ANY, max_size=3).map(tuple)))
def test_the_partition_of_a_key_is_found_without_reading_it(partition: list[str | None], last: Any) -> None:
    make = keys.file_key if isinstance(last, str) else keys.row_key
    key = make(partition, last)
    assert keys.parents(key) == ([b"", keys.partition_key(partition)] if partition else [b""])
    assert decode(key) == (tuple(partition), last)
    for wrong in (key[:-1], key + b"\x00", key + keys.partition_key([])):
        with pytest.raises(InvalidArgument, match="not the key of a table"):
            keys.parents(wrong)


@pytest.mark.parametrize("key", [b"\x07", encode((1,)), encode(((), 1)), encode(((), (), ())), b"text"])
def test_a_key_of_no_table_has_no_level(key: bytes) -> None:
    with pytest.raises(InvalidArgument, match="not the key of a table"):
        keys.level(key)
    with pytest.raises(InvalidArgument):
        keys.parents(key)
    assert keys.in_words(key) is None


def test_wrong_parts_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="strings or None.*int: 1"):
        keys.partition_key([1])  # type: ignore[list-item]
    with pytest.raises(InvalidArgument, match="a tuple, found int"):
        keys.row_key((), 1)  # type: ignore[arg-type]


def test_keys_in_words() -> None:
    assert keys.in_words(b"") == ""
    assert keys.in_words(keys.partition_key(["1", "\x1b[31m"]), ["a", "b"]) == r"a=1 b='\x1b[31m'"
    assert keys.in_words(keys.partition_key(["1", None]), ["a"]) == "1 null", "names that do not fit"
    assert keys.in_words(keys.row_key(["1"], (2, None)), ["a"]) == "a=1 row 2 None"
