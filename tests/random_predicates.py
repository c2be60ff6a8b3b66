"""Random conditions over a table of every type: as SQL for us and Spark, and for DuckDB where it agrees.

`conditions()` draws them; `ROWS` are what they are about, few values of each type that meet, so that
comparisons hold now and then. What Spark's ANSI mode refuses for a row (a division by zero, an overflow,
a cast of unreadable text) is NULL in our conditions: Spark is given the `try_` form of the same.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

UTC = dt.timezone.utc
NAN, INF = float("nan"), float("inf")
LONG_TEXT = "abcdefghijklmnopqrstuvwxyz0123456789"  # beyond the 32 characters of a bound


@dataclass(frozen=True)
class Sql:
    """One expression in three dialects; ``duck`` is None where DuckDB means something else by it."""

    ours: str
    spark: str
    duck: str | None

    def __str__(self) -> str:
        return self.ours


def same(text: str) -> Sql:
    return Sql(text, text, text)


def spark_only(text: str, spark: str | None = None) -> Sql:
    return Sql(text, spark or text, None)


def joined(form: str, *parts: Sql, duck: str | None = "", spark: str = "") -> Sql:
    """``form`` with the parts in its places; ``duck=None`` where DuckDB differs."""
    ducks = [part.duck for part in parts]
    ours = form.format(*(part.ours for part in parts))
    sparks = (spark or form).format(*(part.spark for part in parts))
    if duck is None or None in ducks:
        return Sql(ours, sparks, None)
    return Sql(ours, sparks, (duck or form).format(*ducks))


def text(value: str) -> Sql:
    spark = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return Sql(spark, spark, "'" + value.replace("'", "''") + "'")


# ---------------------------------------------------------------------------- rows

POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.int8(), [0, 1, -1, 5, 127, -128]),
    "i": (pa.int32(), [0, 1, -2, 7, 100, 2**31 - 1, -2**31]),
    "l": (pa.int64(), [0, 1, -9, 2**62, 2**63 - 1, -2**63, 2**53 + 1]),
    "f": (pa.float32(), [0.0, -0.0, 1.5, -2.25, NAN, INF, -INF, 0.1]),
    "d": (pa.float64(), [0.0, -0.0, 1.5, 7.0, NAN, INF, -INF, 0.1, 1e300, 2.0**53]),
    "dec": (pa.decimal128(10, 2), [Decimal(v) for v in ("0.00", "1.50", "-1.55", "99999999.99", "7.00")]),
    "big": (pa.decimal128(38, 0), [Decimal(v) for v in (0, 7, 10**38 - 1, 1 - 10**38)]),
    "s": (pa.string(), ["", "a", "A", "ab", "a%b", "a_b", "a\\b", "it's", " 12 ", "1", "é", "z\nz",
                        LONG_TEXT, LONG_TEXT + "!", "\U0001F600"]),
    "bo": (pa.bool_(), [True, False]),
    "dt": (pa.date32(), [dt.date(2020, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
    "ts": (pa.timestamp("us", "UTC"), [
        dt.datetime(2020, 1, 1, tzinfo=UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        dt.datetime(2024, 2, 29, 12, 30, 0, 1, UTC)]),
    "tn": (pa.timestamp("us"), [dt.datetime(2020, 1, 1), dt.datetime(2024, 2, 29, 12, 30, 0, 1)]),
    "bi": (pa.binary(), [b"", b"a", b"\xff\x00"]),
    "st": (pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.string())]))]), [
        {"x": 1, "y": {"z": "a"}}, {"x": None, "y": {"z": None}}, {"x": 7, "y": None}]),
    "arr": (pa.list_(pa.int32()), [[], [1], [7, 1, None], [None], [1, 2, 3, 7], [0, 0]]),
    "ard": (pa.list_(pa.float64()), [[], [NAN], [-0.0, 1.5], [None, INF]]),
    "ars": (pa.list_(pa.struct([("k", pa.string())])), [[], [{"k": "a"}], [{"k": None}, {"k": "b"}, None]]),
    "m": (pa.map_(pa.string(), pa.int32()), [
        [], [("a", 1)], [("a", None), ("b", 7)], [("é", 0), ("a", 7)]]),
}
ARROW = pa.schema([("id", pa.int32()), *((name, kind) for name, (kind, _) in POOLS.items())])


def rows(count: int, seed: int) -> pa.Table:
    """Rows with an ``id`` from 0, about a fifth of the values NULL."""
    chance = random.Random(seed)
    made = [{"id": n} | {name: None if chance.random() < 0.2 else chance.choice(values)
                         for name, (_, values) in POOLS.items()} for n in range(count)]
    return pa.Table.from_pylist(made, schema=ARROW)


ROWS = rows(48, seed=20)


# ---------------------------------------------------------------------------- expressions

Draw = Callable[..., Any]


def _literal(value: Any) -> Sql:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bool):
        return same(str(value).upper())
    if isinstance(value, int):
        return same(str(value) if abs(value) < 2**31 else f"CAST('{value}' AS BIGINT)")
    if isinstance(value, float):
        return same(f"CAST('{value!r}' AS DOUBLE)")
    if isinstance(value, bytes):
        return Sql(f"X'{value.hex()}'", f"X'{value.hex()}'",
                   "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'::BLOB")
    if isinstance(value, dt.datetime):
        plain = value.replace(tzinfo=None).isoformat(" ")
        if value.tzinfo is None:
            return Sql(f"TIMESTAMP_NTZ '{plain}'", f"TIMESTAMP_NTZ '{plain}'", f"TIMESTAMP '{plain}'")
        return Sql(f"TIMESTAMP '{plain}Z'", f"TIMESTAMP '{plain}Z'", f"TIMESTAMPTZ '{plain}+00'")
    if isinstance(value, dt.date):
        return same(f"DATE '{value}'")
    assert isinstance(value, Decimal)
    _, digits, exponent = value.as_tuple()
    scale = -int(exponent)
    return Sql(f"{value}BD", f"{value}BD", f"CAST('{value}' AS DECIMAL({max(len(digits), scale)},{scale}))")


PLAIN = ["column"] * 4 + ["literal"] * 2
WHOLE, REAL = ("b", "i", "l"), ("f", "d")
LIKE_PARTS = [(True, "%"), (True, "%"), (True, "_"), *((False, part) for part in (
    "a", "b", "A", "%", "_", "\\", "'", "é", "\n", "1", "z", "/", LONG_TEXT[:33]))]


@st.composite
def whole(draw: Draw, depth: int = 1) -> Sql:
    kinds = PLAIN + (["arithmetic", "of text", "of time", "cast", "case", "element"] if depth else [])
    match draw(st.sampled_from(kinds)):
        case "column":
            name = draw(st.sampled_from([*WHOLE, "st.x"]))
            return same(name)
        case "literal":
            return _literal(draw(st.sampled_from([0, 1, -1, 5, 7, 127, 128, 1000, 2**31 - 1, 2**62])))
        case "arithmetic":
            op, attempt = draw(st.sampled_from([("+", "try_add"), ("-", "try_subtract"),
                                                ("*", "try_multiply"), ("%", "try_mod"), ("div", "")]))
            a, b = draw(whole(depth=0)), draw(whole(depth=0))
            if op == "div":
                return joined("({0} div {1})", a, b, duck=None,
                              spark="CASE WHEN {1} <> 0 AND NOT ({1} = -1 AND {0} = -9223372036854775808L)"
                                    " THEN {0} div {1} END")
            return joined(f"({{0}} {op} {{1}})", a, b, duck=None, spark=attempt + "({0}, {1})")
        case "of text":
            return joined("length({})", draw(texts(depth=0)))
        case "of time":
            part = draw(st.sampled_from(["year", "month", "day", "quarter", "dayofyear", "dayofweek",
                                         "weekofyear", "hour", "minute", "second"]))
            moment = "ts" if part in ("hour", "minute", "second") else draw(st.sampled_from(["dt", "ts"]))
            return spark_only(f"{part}({moment})")
        case "cast":
            sources = reals(depth=0), exacts(depth=0), texts(depth=0), conditions(depth=0)
            source = draw(st.one_of(*sources))
            kind = draw(st.sampled_from(["TINYINT", "SMALLINT", "INT", "BIGINT"]))
            return joined(f"CAST({{}} AS {kind})", source, duck=None, spark=f"TRY_CAST({{}} AS {kind})")
        case "element":
            index, key = draw(st.integers(-3, 4)), draw(st.sampled_from(["a", "b", "é", "zz"]))
            return spark_only(draw(st.sampled_from([
                f"get(arr, {index})", f"try_element_at(arr, {index or 1})", "size(arr)", "cardinality(m)",
                f"m['{key}']", f"element_at(m, '{key}')", "size(map_keys(m))", f"get(map_values(m), {index})",
                f"array(i, st.x, 5)[{abs(index) % 3}]", f"map('a', i, '{key}{key}', 3)['a']", f"m.{key}",
                "get(arr, st.x)", f"size(array(arr, array({index})))",
                f"element_at(array(1, b), {index % 2 + 1})",
                f"CASE WHEN size(arr) > {abs(index)} THEN arr[{abs(index)}] END",
                f"coalesce(get(arr, 0), element_at(array(1), {index % 2 - 1 or 1}))"])))
    return draw(_case(whole(depth=0)))


@st.composite
def reals(draw: Draw, depth: int = 1) -> Sql:
    kinds = PLAIN + (["arithmetic", "divide", "cast", "case"] if depth else [])
    match draw(st.sampled_from(kinds)):
        case "column":
            return same(draw(st.sampled_from(REAL)))
        case "literal":
            return _literal(draw(st.sampled_from([0.0, 1.5, -2.25, NAN, INF, -INF, 0.1, 7.0, 1e300])))
        case "arithmetic":
            op = draw(st.sampled_from(["+", "-", "*"]))
            return joined(f"({{}} {op} {{}})", draw(reals(depth=0)), draw(reals(depth=0)), duck=None)
        case "divide":
            return joined("({} / {})", draw(st.one_of(reals(depth=0), whole(depth=0))),
                          draw(st.one_of(reals(depth=0), whole(depth=0))), duck=None,
                          spark="try_divide({}, {})")
        case "cast":
            kind = draw(st.sampled_from(["DOUBLE", "FLOAT"]))
            source = draw(st.one_of(whole(depth=0), exacts(depth=0), texts(depth=0)))
            return joined(f"CAST({{}} AS {kind})", source, duck=None, spark=f"TRY_CAST({{}} AS {kind})")
    return draw(_case(reals(depth=0)))


@st.composite
def exacts(draw: Draw, depth: int = 1) -> Sql:
    """Decimals that meet within 38 digits: beyond, Spark rounds and we do not."""
    kinds = PLAIN + (["arithmetic", "cast"] if depth else [])
    match draw(st.sampled_from(kinds)):
        case "column":
            return same("dec")
        case "literal":
            return _literal(Decimal(draw(st.sampled_from(
                ["0.00", "1.5", "1.50", "-1.55", "7", "99999999.99"]))))
        case "arithmetic":
            op = draw(st.sampled_from(["+", "-", "*"]))
            other = draw(st.sampled_from(["2", "dec", "b", "1.5"]))
            return spark_only(f"(dec {op} {other})")
    kind = draw(st.sampled_from(["DECIMAL(10,2)", "DECIMAL(20,0)", "DECIMAL(38,18)", "DECIMAL(3,1)"]))
    source = draw(st.one_of(whole(depth=0), exacts(depth=0), texts(depth=0)))
    return joined(f"CAST({{}} AS {kind})", source, duck=None, spark=f"TRY_CAST({{}} AS {kind})")


@st.composite
def texts(draw: Draw, depth: int = 1) -> Sql:
    kinds = PLAIN + (["function", "concat", "substring", "case", "cast"] if depth else [])
    match draw(st.sampled_from(kinds)):
        case "column":
            return same(draw(st.sampled_from(["s", "s", "st.y.z"])))
        case "literal":
            return text(draw(st.sampled_from(POOLS["s"][1])))
        case "function":
            name = draw(st.sampled_from(["upper", "lower", "trim", "ltrim", "rtrim"]))
            return joined(f"{name}({{}})", draw(texts(depth=0)))
        case "concat":
            form = draw(st.sampled_from(["concat({}, {})", "({} || {})"]))
            return joined(form, draw(texts(depth=0)), draw(texts(depth=0)), duck="({} || {})")
        case "substring":
            start, length = draw(st.integers(-3, 4)), draw(st.integers(-1, 4))
            return joined(f"substring({{}}, {start}, {length})", draw(texts(depth=0)), duck=None)
        case "cast":
            return joined("CAST({} AS STRING)", draw(st.one_of(whole(depth=0), conditions(depth=0),
                                                               times("dt"))), duck=None)
    return draw(_case(texts(depth=0)))


@st.composite
def times(draw: Draw, name: str) -> Sql:
    column, others = same(name), list(POOLS[name][1])
    more = {"dt": [spark_only("CAST(ts AS DATE)"), spark_only("to_date(s)", "TRY_CAST(s AS DATE)")],
            "ts": [spark_only("CAST(dt AS TIMESTAMP)"), spark_only("date_trunc('month', ts)")],
            "tn": [spark_only("CAST(ts AS TIMESTAMP_NTZ)")]}.get(name, [])
    return draw(st.sampled_from([column] * 3 + [_literal(v) for v in others] + more))


@st.composite
def _case(draw: Draw, values: st.SearchStrategy[Sql]) -> Sql:
    form = draw(st.sampled_from(["CASE WHEN {0} THEN {1} ELSE {2} END", "CASE WHEN {0} THEN {1} END",
                                 "coalesce({1}, {2})", "if({0}, {1}, {2})", "nullif({1}, {2})"]))
    return joined(form, draw(conditions(depth=0)), draw(values), draw(values))


KINDS: list[Callable[[int], st.SearchStrategy[Sql]]] = [
    lambda depth: whole(depth=depth), lambda depth: reals(depth=depth), lambda depth: exacts(depth=depth),
    lambda depth: texts(depth=depth), lambda depth: texts(depth=depth),
    *((lambda depth, name=name: times(name)) for name in ("dt", "ts", "tn", "bi", "big")),  # type: ignore[misc]
]
NUMBERS = [KINDS[0], KINDS[1], KINDS[2]]
COMPARED = ["=", "<>", "!=", "<", "<=", ">", ">=", "<=>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


@st.composite
def _pair(draw: Draw, depth: int, count: int = 2) -> list[Sql]:
    """Operands that may meet: of one type, or numbers of several (DuckDB meets those elsewhere)."""
    if draw(st.integers(0, 4)) == 0:
        operands = [draw(draw(st.sampled_from(NUMBERS))(depth)) for _ in range(count)]
        return [Sql(one.ours, one.spark, None) for one in operands]
    kind = draw(st.sampled_from(KINDS))
    return [draw(kind(depth)) for _ in range(count)]


@st.composite
def conditions(draw: Draw, depth: int = 2) -> Sql:
    """A condition; at depth 0 a comparison of plain values."""
    plain = ["compare"] * 4 + ["null", "in", "between", "like", "like", "column", "truth"]
    plain += ["nested"] * 2 if depth else []
    nested = ["and", "or", "not", "not", "case"] if depth else []
    below = max(depth - 1, 0)
    match draw(st.sampled_from(plain + nested * 2)):
        case "compare":
            op = draw(st.sampled_from(COMPARED))
            duck = {"<=>": "IS NOT DISTINCT FROM"}.get(op, op)
            a, b = draw(_pair(min(depth, 1)))
            return joined(f"({{}} {op} {{}})", a, b, duck=f"({{}} {duck} {{}})")
        case "null":
            word = draw(st.sampled_from(["IS NULL", "IS NOT NULL"]))
            tested = st.one_of(*(kind(below and 1) for kind in KINDS), conditions(depth=0))
            return joined(f"({{}} {word})", draw(tested))
        case "in":
            word = draw(st.sampled_from(["IN", "NOT IN"]))
            first, *listed = draw(_pair(min(depth, 1), draw(st.integers(2, 5))))
            if draw(st.integers(0, 3)) == 0:
                listed.append(same("NULL"))
            places = ", ".join(["{}"] * len(listed))
            return joined(f"({{}} {word} ({places}))", first, *listed)
        case "between":
            word = draw(st.sampled_from(["BETWEEN", "NOT BETWEEN"]))
            return joined(f"({{}} {word} {{}} AND {{}})", *draw(_pair(min(depth, 1), 3)))
        case "like":
            return draw(_like(depth))
        case "column":
            return same(draw(st.sampled_from(["bo", "(st IS NULL)", "(st.y IS NOT NULL)", "TRUE", "FALSE"])))
        case "nested":
            return draw(_nested())
        case "truth":
            word = draw(st.sampled_from(["IS TRUE", "IS FALSE", "IS NOT TRUE", "IS NOT FALSE"]))
            return joined(f"({{}} {word})", draw(conditions(depth=below)) if depth else same("bo"))
        case ("and" | "or") as word:
            count = draw(st.integers(2, 3))
            form = "(" + f" {word.upper()} ".join(["{}"] * count) + ")"
            return joined(form, *(draw(conditions(depth=below)) for _ in range(count)))
        case "not":
            form = draw(st.sampled_from(["(NOT {})", "(! {})"]))
            return joined(form, draw(conditions(depth=below)), duck="(NOT {})")
    return draw(_case(conditions(depth=0)))


@st.composite
def _nested(draw: Draw) -> Sql:
    whole_number, real = draw(whole(depth=0)), draw(reals(depth=0))
    number = draw(st.integers(0, 3))
    op = draw(st.sampled_from(COMPARED))
    items = st.sampled_from(["0", "1", "7", "NULL", "st.x"])
    listed = ", ".join(draw(st.lists(items, min_size=1, max_size=3)))
    reals_listed = draw(st.sampled_from(["d", "CAST('NaN' AS DOUBLE)", "0.0D, 1.5D", "NULL, d"]))
    form, *parts = draw(st.sampled_from([
        ("array_contains(arr, {})", whole_number), ("array_contains(ard, {})", real),
        ("array_contains(array({}, f), 1.5D)", real), ("map_contains_key(m, {})", draw(texts(depth=0))),
        ("(size(arr) > {0} AND arr[{0}] = 1)", same(str(number))),
        ("(size(arr) <= {0} OR element_at(arr, {0} + 1) IS NULL)", same(str(number))),
        ("(NOT (size(arr) > {0} AND arr[{0}] = 1))", same(str(number))),
        (f"(arr {op} array({listed}))",), (f"(ard {op} array({reals_listed}))",), (f"(ars {op} ars)",),
        (f"(st {op} st)",), (f"(arr IN (array({listed}), array(1), NULL))",),
        (f"(get(ars, {number}).k = 'a')",), (f"(ars.k {op} array('a'))",), ("(ars.k IS NULL)",),
        (f"(array(arr, NULL)[{number % 2}] IS NULL)",),
        ("(arr BETWEEN array(1) AND array(7, 1))",), (f"(coalesce(arr, array({listed})) = array(1))",),
    ]))
    return joined(form, *parts, duck=None)


@st.composite
def _like(draw: Draw, depth: int) -> Sql:
    operand = draw(texts(depth=min(depth, 1)))
    word = draw(st.sampled_from(["LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"]))
    parts = draw(st.lists(st.sampled_from(LIKE_PARTS), max_size=4))
    escape = draw(st.sampled_from(["\\", "\\", "/", "!"]))
    pattern = text("".join(part if is_wild else part.replace(escape, escape * 2).replace("%", escape + "%")
                           .replace("_", escape + "_") for is_wild, part in parts))
    suffix = "" if escape == "\\" else f" ESCAPE '{escape}'"
    return joined(f"({{}} {word} "
                  f"{{}}{suffix})", operand, pattern, duck=f"({{}} {word} {{}} ESCAPE '{escape}')")
