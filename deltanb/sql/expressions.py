"""Resolved expressions, and how they run on Arrow.

What lives here: the small tree a predicate becomes once names, types and casts are settled
(:class:`Column`, :class:`Literal`, :class:`Call`), and :func:`compile_expression`, which turns it
into a ``pyarrow.compute.Expression`` with Spark's semantics: three-valued logic, NaN equal to
itself and greatest, NULL on division by zero, on overflow and on casts of unreadable text.
What it does not know: SQL, schemas, files. Every node is typed; operands already have one type.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.sql import kernels, nested_kernels
from deltanb.sql.coercion import (
    FALSE_WORDS,
    INTEGER_BOUNDS,
    MAX_EXACT_PRECISION,
    TRUE_WORDS,
    arrow_scalar,
    as_decimal,
    is_number,
    is_text,
    same_shape,
)

Compile = Callable[["Expression"], pc.Expression]

MAX_CHAIN = 250
"""Terms that Arrow is given in one chain of AND or OR: a kilobyte of its stack each, of half a megabyte."""
NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
# At most 18 digits always fit a bigint; longer texts read as NULL rather than fail a scan.
_INTEGER_TEXT = r"^\s*[+-]?0*[0-9]{1,18}\s*$"
_FLOAT_TEXT = r"(?i)^\s*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf|infinity)\s*$"
_DATE_TEXT = r"(?s)^\s*([0-9]{4}-(?:0?[1-9]|1[0-2])-(?:0?[1-9]|[12][0-9]|3[01]))(?:[T ].*)?\s*$"


@dataclass(frozen=True, slots=True)
class Column:
    """A column or a field inside structs, by its names from the outside in."""

    path: tuple[str, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; ``None`` is NULL."""

    value: Any
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Call:
    """An operation on operands; ``extra`` is what is no operand: a pattern, a unit, the set of an ``in``."""

    op: str
    args: tuple[Expression, ...]
    type: pa.DataType
    extra: Any = None


Expression = Column | Literal | Call
TRUE, FALSE = Literal(True, pa.bool_()), Literal(False, pa.bool_())


class Unsupported(Exception):
    """An operation that does not run on Arrow; the message names it."""


def boolean(op: str, *args: Expression, extra: Any = None) -> Call:
    """A call that yields a boolean."""
    return Call(op, args, pa.bool_(), extra)


def joined(op: str, terms: Sequence[Expression]) -> Expression:
    """AND or OR of terms: in pairs, those in pairs, …, so that no walk runs deep, however many they are."""
    if len(terms) == 1:
        return terms[0]
    middle = (len(terms) + 1) // 2
    return boolean(op, joined(op, terms[:middle]), joined(op, terms[middle:]))


def walk(expression: Expression) -> Iterator[Expression]:
    """The node and everything below it, each before what is below it."""
    left = [expression]  # generators in each other would hand every node up through all of them
    while left:
        node = left.pop()
        yield node
        if isinstance(node, Call):
            left += reversed(node.args)


def substitute(expression: Expression, columns: dict[tuple[str, ...], Expression]) -> Expression:
    """The expression with columns replaced."""
    if isinstance(expression, Column):
        return columns.get(expression.path, expression)
    if isinstance(expression, Call):
        args = tuple(substitute(arg, columns) for arg in expression.args)
        return Call(expression.op, args, expression.type, expression.extra)
    return expression


def conjuncts(expression: Expression) -> list[Expression]:
    """The parts that a top-level AND joins."""
    if isinstance(expression, Call) and expression.op == "and" and expression.extra != "between":
        return [part for arg in expression.args for part in conjuncts(arg)]
    return [expression]


def negate(expression: Expression) -> Expression:
    """NOT, pushed down to the comparisons (the same in three-valued logic)."""
    if isinstance(expression, Literal):
        return Literal(None if expression.value is None else not expression.value, pa.bool_())
    if isinstance(expression, Call):
        op, args = expression.op, expression.args
        if op == "not":
            return args[0]
        if op in ("and", "or"):
            return boolean("or" if op == "and" else "and", *map(negate, args))
        if op in NEGATED:
            return boolean(NEGATED[op], *args)
    return boolean("not", expression)


def like(operand: Expression, parts: list[str]) -> Expression:
    """LIKE with a pattern in parts (wildcards are led by a NUL): the plainest call that does it."""
    wild = [i for i, part in enumerate(parts) if part[0] == "\0"]
    text = "".join(part for part in parts if part[0] != "\0")
    if not wild:
        return boolean("eq", operand, Literal(text, pa.string()))
    if all(parts[i] == "\0%" for i in wild):
        if wild == [len(parts) - 1]:
            return boolean("prefix", operand, extra=text)
        if wild == [0]:
            return boolean("suffix", operand, extra=text)
        if wild == [0, len(parts) - 1]:
            return boolean("contains", operand, extra=text)
    wildcards = {"\0%": ".*", "\0_": "."}
    body = "".join(wildcards.get(part) or re.escape(part) for part in parts)
    return boolean("regex", operand, extra=f"(?s)^(?:{body})$")


# ---------------------------------------------------------------------------- compiling


def compile_expression(
    expression: Expression,
    column: Callable[[Column], pc.Expression] = lambda c: pc.field(*c.path),
    *,
    as_filter: bool = False,
) -> pc.Expression:
    """The Arrow expression; ``column`` says where a column's values are.

    ``as_filter`` allows FALSE in place of NULL, which a filter cannot tell apart and which lets
    Parquet statistics answer ``IN``.

    Raises:
        Unsupported: an operation has no Arrow counterpart with Spark's meaning.
    """

    def run(node: Expression) -> pc.Expression:
        if isinstance(node, Column):
            return column(node)
        if isinstance(node, Literal):
            return pc.scalar(arrow_scalar(node.value, node.type))
        handler = _OPERATIONS.get(node.op)
        if handler is None:
            raise Unsupported(node.op)
        return handler(node, run)

    if as_filter and isinstance(expression, Call):
        if expression.op in ("and", "or"):
            return _chain(expression, lambda arg: compile_expression(arg, column, as_filter=True))
        if expression.op == "in":
            return _is_member(expression, run(expression.args[0]))
    return run(expression)


def _chain(node: Call, run: Compile) -> pc.Expression:
    """AND or OR. Arrow makes one chain of all that is joined alike and walks it a call a term, so the
    parts of a long one are negated twice: that keeps them apart."""
    join, size = operator.and_ if node.op == "and" else operator.or_, MAX_CHAIN
    terms = [run(term) for term in _terms(node)]
    while len(terms) > 1:
        terms = [reduce(join, terms[i:i + size]) for i in range(0, len(terms), size)]
        terms = [~~term for term in terms] if len(terms) > 1 else terms
        size = 2
    return terms[0]


def _terms(node: Call) -> list[Expression]:
    """What an AND or an OR joins, however it is nested."""
    terms: list[Expression] = []
    left: list[Expression] = [node]
    while left:
        term = left.pop()
        if isinstance(term, Call) and term.op == node.op:
            left += reversed(term.args)
        else:
            terms.append(term)
    return terms


def _comparison(node: Call, run: Compile) -> pc.Expression:
    left, right = node.args
    if t.is_nested(left.type):
        order = Call("order", node.args, pa.int8())
        return _comparison(boolean(node.op, order, Literal(0, pa.int8())), run)
    if t.is_floating(left.type):
        return _float_comparison(node.op, left, right, run)
    a, b = run(left), run(right)
    match node.op:
        case "eq":
            return a == b
        case "ne":
            return a != b
        case "lt":
            return a < b
        case "le":
            return a <= b
        case "gt":
            return a > b
    return a >= b


def _float_comparison(op: str, left: Expression, right: Expression, run: Compile) -> pc.Expression:
    if op == "ne":
        return ~_float_comparison("eq", left, right, run)
    if op in ("gt", "ge"):
        return _float_comparison(MIRRORED[op], right, left, run)
    a, b = run(left), run(right)
    if op == "eq":
        equal = a == b
        if _may_be_nan(left) and _may_be_nan(right):
            equal = equal | (pc.is_nan(a) & pc.is_nan(b))
        return equal
    less = a < b if op == "lt" else a <= b
    if _may_be_nan(right):
        other = a.is_valid() if op == "le" else ~pc.is_nan(a) & a.is_valid()
        less = less | (pc.is_nan(b) & other)
    return less


def _may_be_nan(node: Expression) -> bool:
    if isinstance(node, Literal):
        return node.value is not None and math.isnan(node.value)
    if isinstance(node, Call) and node.op == "cast":
        return bool(t.is_floating(node.args[0].type) or is_text(node.args[0].type))
    return True


def _null_safe_equal(node: Call, run: Compile) -> pc.Expression:
    a, b = map(run, node.args)
    equal = _comparison(boolean("eq", *node.args), run)
    return pc.coalesce(equal, _false()) | (a.is_null() & b.is_null())


def _is_member(node: Call, operand: pc.Expression) -> pc.Expression:
    """Whether the operand is one of the constants; FALSE where it is NULL."""
    is_member = operand.isin(node.extra.array)
    return is_member | pc.is_nan(operand) if node.extra.has_nan else is_member


def _in(node: Call, run: Compile) -> pc.Expression:
    operand = run(node.args[0])
    is_member = _is_member(node, operand)
    if node.extra.has_null:
        return is_member | _null(pa.bool_())
    if t.is_floating(node.args[0].type):
        return pc.if_else(operand.is_valid(), is_member, _null(pa.bool_()))
    return is_member | (operand != operand)  # NULL for a NULL operand


def _regex(node: Call, run: Compile) -> pc.Expression:
    return pc.match_substring_regex(run(node.args[0]), node.extra)


def _case(node: Call, run: Compile) -> pc.Expression:
    if len(node.args) > MAX_CHAIN:  # nested calls, one a branch, take Arrow more stack than it has
        when = pc.make_struct(*(pc.coalesce(run(condition), _false()) for condition in node.args[:-1:2]))
        return pc.case_when(when, *map(run, node.args[1::2]), run(node.args[-1]))
    result = run(node.args[-1])
    for i in range(len(node.args) - 3, -1, -2):
        condition = pc.coalesce(run(node.args[i]), _false())
        result = pc.if_else(condition, run(node.args[i + 1]), result)
    return result


def _null(data_type: pa.DataType) -> pc.Expression:
    return pc.scalar(pa.nulls(1, data_type)[0])


def _false() -> pc.Expression:
    return pc.scalar(arrow_scalar(False, pa.bool_()))


def _divisor(node: Expression, run: Compile) -> pc.Expression:
    """The divisor with NULL in place of zero."""
    compiled = run(node)
    if isinstance(node, Literal) and node.value:
        return compiled
    zero = pc.scalar(pa.scalar(0, node.type))
    return pc.if_else(compiled == zero, _null(node.type), compiled)


def _divide(node: Call, run: Compile) -> pc.Expression:
    a, b = run(node.args[0]), _divisor(node.args[1], run)
    if t.is_integer(node.type) and not isinstance(node.args[1], Literal):
        b = pc.if_else((b == -1) & (a == -INTEGER_BOUNDS[node.type]), _null(node.type), b)
    return pc.divide(a, b)


def _modulo(node: Call, run: Compile) -> pc.Expression:
    a, b = run(node.args[0]), _divisor(node.args[1], run)
    if t.is_integer(node.type):  # the least integer divided by -1 is none
        b = pc.if_else(b == -1, pc.scalar(arrow_scalar(1, node.type)), b)
    return pc.subtract(a, pc.multiply(pc.divide(a, b), b))


def _arithmetic(function: Any) -> Callable[[Call, Compile], pc.Expression]:
    """Arithmetic that is NULL where an integer overflows; Arrow's own wraps around."""
    def handler(node: Call, run: Compile) -> pc.Expression:
        args, kind = [run(arg) for arg in node.args], node.type
        if not t.is_integer(kind):
            return function(*args)
        bound = INTEGER_BOUNDS[kind]
        if kind != pa.int64():
            result = function(*(arg.cast(pa.int64()) for arg in args))
            fits = (result >= -bound) & (result < bound)
            return pc.if_else(fits, result, _null(pa.int64())).cast(kind)
        result = function(*args)
        return pc.if_else(_fits_long(node.op, args, result), result, _null(kind))

    return handler


def _fits_long(op: str, args: list[pc.Expression], result: pc.Expression) -> pc.Expression:
    """Whether 64-bit arithmetic gave the true result."""
    a, least = args[0], -INTEGER_BOUNDS[pa.int64()]
    if len(args) == 1:
        return a != least
    b = args[1]
    if op == "mul":
        plain = pc.if_else((a == 0) | (a == -1), 1, a)
        return (a == 0) | ((a == -1) & (b != least)) | ((a == plain) & (pc.divide(result, plain) == b))
    signs = pc.bit_wise_xor(a, b if op == "sub" else result), pc.bit_wise_xor(b if op == "add" else a, result)
    return pc.bit_wise_and(*signs) >= 0


def _substring(node: Call, run: Compile) -> pc.Expression:
    position, length = node.extra
    start = position - 1 if position > 0 else position
    stop = None if length is None else start + max(length, 0)
    if start < 0 and stop is not None and stop >= 0:
        stop = None
    return pc.utf8_slice_codeunits(run(node.args[0]), start, stop)


def _concat(node: Call, run: Compile) -> pc.Expression:
    parts = [run(arg) for arg in node.args]
    return pc.binary_join_element_wise(*parts, "") if len(parts) > 1 else parts[0]


def _date_trunc(node: Call, run: Compile) -> pc.Expression:
    return pc.floor_temporal(run(node.args[0]), unit=node.extra)


def _apply(function: Any, *extra: Any, **options: Any) -> Callable[[Call, Compile], pc.Expression]:
    def handler(node: Call, run: Compile) -> pc.Expression:
        return function(*map(run, node.args), *extra, **options)

    return handler


def _kernel(kernel: kernels.Kernel) -> Callable[[Call, Compile], pc.Expression]:
    return lambda node, run: kernels.call(
        kernel, [run(arg) for arg in node.args], [arg.type for arg in node.args], node.type)


def _with_extra(function: Any) -> Callable[[Call, Compile], pc.Expression]:
    return lambda node, run: function(run(node.args[0]), node.extra)


def _part(function: Any, **options: Any) -> Callable[[Call, Compile], pc.Expression]:
    """Calendar parts are ``int`` in Spark, bigint in Arrow."""
    return lambda node, run: function(run(node.args[0]), **options).cast(pa.int32())


# ---------------------------------------------------------------------------- casts


def _cast(node: Call, run: Compile) -> pc.Expression:
    source, target = node.args[0].type, node.type
    value = run(node.args[0])
    if source == target:
        return value
    if t.is_null(source):
        return pc.if_else(value.is_null(), _null(target), _null(target))
    if is_text(source):
        return _cast_text(value, target)
    if is_number(source) and is_number(target):
        return _cast_number(value, source, target)
    if t.is_boolean(source) and is_number(target):
        return value.cast(pa.int8()).cast(target) if t.is_decimal(target) else value.cast(target)
    if t.is_boolean(target) and is_number(source):
        return value != pc.scalar(pa.scalar(0, source))
    if t.is_temporal(source) and t.is_temporal(target):
        return value.cast(target, safe=False)
    if is_text(target) and (t.is_integer(source) or t.is_boolean(source) or t.is_date(source)):
        return value.cast(target)
    if is_text(target) and t.is_decimal(source):
        return kernels.call(kernels.decimal_text, [value], [source], pa.string()).cast(target)
    if is_text(source) and t.is_binary(target):
        return value.cast(target)
    if same_shape(source, target) or (
            t.is_list(source) and t.is_list(target) and _widens(source.value_type, target.value_type)):
        return value.cast(target, safe=False)
    raise Unsupported(f"a cast from {source} to {target}")


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether Arrow's cast of elements is Spark's, and none is lost."""
    if t.is_null(source):
        return True
    if t.is_list(source) and t.is_list(target):
        return _widens(source.value_type, target.value_type)
    if t.is_integer(source) and t.is_integer(target):
        return INTEGER_BOUNDS[source] <= INTEGER_BOUNDS[target]
    if t.is_decimal(target) and (t.is_integer(source) or t.is_decimal(source)):
        exact = as_decimal(source)
        whole = target.precision - target.scale
        return exact.scale <= target.scale and exact.precision - exact.scale <= whole
    return same_shape(source, target) or (
        t.is_floating(target) and (t.is_integer(source) or t.is_floating(source)) and target == pa.float64())


def _cast_number(
    value: pc.Expression, source: pa.DataType, target: pa.DataType
) -> pc.Expression:
    if t.is_floating(target):
        if t.is_decimal(source):  # through text: Arrow's own cast is off by a last bit
            value = value.cast(pa.string())
        return value.cast(target, safe=False)
    if t.is_decimal(target):
        return _to_decimal(value, source, target)
    bound = INTEGER_BOUNDS[target]
    if t.is_integer(source):
        if INTEGER_BOUNDS[source] <= bound:
            return value.cast(target)
        fits = (value >= -bound) & (value < bound)
    else:
        value = pc.trunc(value)
        kind = Decimal if t.is_decimal(source) else float
        fits = (value >= kind(-bound)) & (value < kind(bound))
    return pc.if_else(fits, value, _null(source)).cast(target, safe=False)


def _to_decimal(
    value: pc.Expression, source: pa.DataType, target: pa.DataType
) -> pc.Expression:
    if t.is_floating(source):
        raise Unsupported(f"a cast from {source} to {target}")
    exact = as_decimal(source)
    whole = target.precision - target.scale
    if exact.scale <= target.scale and exact.precision - exact.scale <= whole:
        return value.cast(target)
    wide = pa.decimal256(MAX_EXACT_PRECISION, max(exact.scale, target.scale))
    rounded = pc.round(value.cast(wide), target.scale, round_mode="half_towards_infinity")
    limit = pc.scalar(pa.scalar(Decimal(10) ** whole, pa.decimal256(whole + 1, 0)))
    fits = pc.abs(rounded) < limit
    return pc.if_else(fits, rounded, _null(wide)).cast(target)


def _cast_text(value: pc.Expression, target: pa.DataType) -> pc.Expression:
    """Text that is not a value of the type becomes NULL: a filter must not fail on one bad row."""
    if is_text(target) or t.is_binary(target):
        return value.cast(target)
    if t.is_integer(target):
        number = _where(value, _INTEGER_TEXT)
        digits = pc.replace_substring(pc.utf8_trim_whitespace(number), "+", "")
        return _cast_number(digits.cast(pa.int64()), pa.int64(), target)
    if t.is_floating(target):
        number = pc.utf8_trim_whitespace(_where(value, _FLOAT_TEXT))
        return pc.replace_substring(number, "+", "").cast(target)
    if t.is_boolean(target):
        word = pc.utf8_lower(pc.utf8_trim_whitespace(value))
        known = word.isin(sorted(TRUE_WORDS | FALSE_WORDS))
        return pc.if_else(known, word.isin(sorted(TRUE_WORDS)), _null(pa.bool_()))
    if t.is_date(target):
        day = pc.replace_substring_regex(_where(value, _DATE_TEXT), _DATE_TEXT, r"\1")
        parsed = pc.strptime(day, format="%Y-%m-%d", unit="us", error_is_null=True)
        # strptime rolls 30 February over into March
        rolled = pc.match_substring_regex(day, "-(29|30|31)$") & (pc.day(parsed) < 4)
        return pc.if_else(rolled, _null(pa.timestamp("us")), parsed).cast(pa.date32())
    raise Unsupported(f"a cast from string to {target}")


def _where(value: pc.Expression, pattern: str) -> pc.Expression:
    return pc.if_else(pc.match_substring_regex(value, pattern), value, _null(pa.string()))


_OPERATIONS: dict[str, Callable[[Call, Compile], pc.Expression]] = {
    "and": _chain,
    "or": _chain,
    "not": lambda node, run: ~run(node.args[0]),
    **dict.fromkeys(NEGATED, _comparison),
    "null_safe_eq": _null_safe_equal,
    "in": _in,
    "is_null": lambda node, run: run(node.args[0]).is_null(),
    "is_true": lambda node, run: pc.coalesce(run(node.args[0]), _false()),
    "is_nan": lambda node, run: pc.coalesce(pc.is_nan(run(node.args[0])), _false()),
    "regex": _regex,
    "prefix": _with_extra(pc.starts_with),
    "suffix": _with_extra(pc.ends_with),
    "contains": _with_extra(pc.match_substring),
    "case": _case,
    "coalesce": _apply(pc.coalesce),
    "cast": _cast,
    "add": _arithmetic(pc.add),
    "sub": _arithmetic(pc.subtract),
    "mul": _arithmetic(pc.multiply),
    "div": _divide,
    "mod": _modulo,
    "neg": _arithmetic(pc.negate),
    "abs": _arithmetic(pc.abs),
    # Of integers that are stored: an overflow raises ArrowInvalid rather than wrap around.
    "add_checked": _apply(pc.add_checked),
    "sub_checked": _apply(pc.subtract_checked),
    "mul_checked": _apply(pc.multiply_checked),
    "neg_checked": _apply(pc.negate_checked),
    "abs_checked": _apply(pc.abs_checked),
    "upper": _kernel(kernels.upper),
    "lower": _kernel(kernels.lower),
    "length": _part(pc.utf8_length),
    "byte_length": _part(pc.binary_length),
    "trim": _apply(pc.utf8_trim, " "),
    "ltrim": _apply(pc.utf8_ltrim, " "),
    "rtrim": _apply(pc.utf8_rtrim, " "),
    "substring": _substring,
    "concat": _concat,
    "year": _part(pc.year),
    "quarter": _part(pc.quarter),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "dayofyear": _part(pc.day_of_year),
    "dayofweek": _part(pc.day_of_week, count_from_zero=False, week_start=7),
    "weekofyear": _part(pc.iso_week),
    "hour": _part(pc.hour),
    "minute": _part(pc.minute),
    "second": _part(pc.second),
    "date_trunc": _date_trunc,
    "raising": _kernel(kernels.raise_where),
    "size": _kernel(nested_kernels.size),
    "item": _kernel(nested_kernels.item),
    "item_or_null": _kernel(nested_kernels.item),
    "element": _kernel(nested_kernels.element),
    "element_or_null": _kernel(nested_kernels.element),
    "entry": _kernel(nested_kernels.entry),
    "contains_element": _kernel(nested_kernels.contains),
    "map_keys": _kernel(nested_kernels.keys),
    "map_values": _kernel(nested_kernels.values),
    "fields": _kernel(nested_kernels.fields),
    "field": lambda node, run: pc.struct_field(run(node.args[0]), [node.extra]),
    "array": _kernel(nested_kernels.array_of),
    "map": _kernel(nested_kernels.map_of),
    "is_no_map": _kernel(nested_kernels.is_no_map),
    "order": _kernel(nested_kernels.order),
}
