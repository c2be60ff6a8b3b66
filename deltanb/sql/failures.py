"""Where Spark refuses to evaluate a condition: an index outside of its array, a key twice in a map.

What lives here: :func:`failure`, a condition that is TRUE for the rows where Spark raises, with Spark's
order of evaluation: the right side of an AND is not looked at where the left is FALSE, so that
``size(a) > 2 AND a[2] = 1`` never fails. :func:`guarded` makes a condition raise there.
What it does not know: how an expression runs. Divisions by zero, overflows and casts of unreadable text
are NULL in conditions (``predicates``) and no failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from deltanb.sql import expressions as ex
from deltanb.sql.expressions import Call, Expression, Literal, boolean

FAILING = frozenset({"item", "element", "element_or_null", "map"})
"""Operations that Spark refuses for some operands."""


def can_fail(expression: Expression) -> bool:
    """Whether Spark may raise for some row."""
    return any(isinstance(node, Call) and node.op in FAILING for node in ex.walk(expression))


def guarded(condition: Expression, sql: str) -> Expression:
    """The condition; evaluating it raises InvalidPredicate where Spark raises.

    Conjuncts stay apart, so that those that cannot fail are asked of file statistics as before.
    """
    if not can_fail(condition):
        return condition
    parts, made = ex.conjuncts(condition), []
    for number, part in enumerate(parts):
        fails = failure(part)
        if fails is not None:
            before = [_is_not_false(earlier) for earlier in parts[:number]]
            part = boolean("raising", ex.joined("and", [*before, fails]), part, Literal(sql, pa.string()))
        made.append(part)
    return ex.joined("and", made)


def failure(node: Expression) -> Expression | None:
    """TRUE where Spark raises, FALSE or NULL elsewhere; None if it never does."""
    if not isinstance(node, Call) or not can_fail(node):
        return None
    op, args = node.op, node.args
    if op == "and":
        return _in_turn(args, _is_not_false)
    if op == "or":
        return _in_turn(args, _is_not_true)
    if op == "coalesce":
        return _in_turn(args, lambda arg: boolean("is_null", arg))
    if op == "case":
        return _case(args)
    if len(args) == 2 and op not in ("null_safe_eq", "array", "map", "in"):
        failing = _in_turn(args, lambda arg: boolean("not", boolean("is_null", arg)))
    else:
        failing = _any_of(map(failure, args))
    return _any_of([failing, _own(node)])


def _own(node: Call) -> Expression | None:
    """Where the operation itself fails, its operands being known."""
    if node.op == "map":
        return Call("is_no_map", node.args, pa.bool_())
    if node.op not in FAILING:
        return None
    array, index = node.args
    zero, count = Literal(0, index.type), Call("cast", (Call("size", (array,), pa.int32()),), index.type)
    if node.op == "item":
        return boolean("or", boolean("lt", index, zero), boolean("ge", index, count))
    is_zero = boolean("eq", index, zero)
    if node.op == "element_or_null":
        return boolean("and", is_zero, boolean("not", boolean("is_null", array)))
    least = Call("neg", (count,), index.type)
    return ex.joined("or", [boolean("and", is_zero, boolean("not", boolean("is_null", array))),
                            boolean("gt", index, count), boolean("lt", index, least)])


def _case(args: tuple[Expression, ...]) -> Expression | None:
    """Conditions and values by turns, then the default."""
    failing: list[Expression | None] = []
    before: list[Expression] = []
    for condition, value in zip(args[:-1:2], args[1::2], strict=True):
        failing += [_all_of(before, failure(condition)),
                  _all_of([*before, boolean("is_true", condition)], failure(value))]
        before.append(_is_not_true(condition))
    return _any_of([*failing, _all_of(before, failure(args[-1]))])


def _in_turn(args: Iterable[Expression], goes_on: Callable[[Expression], Expression]) -> Expression | None:
    """Each is looked at where those before it let Spark go on."""
    failing: list[Expression | None] = []
    before: list[Expression] = []
    for arg in args:
        failing.append(_all_of(before, failure(arg)))
        before.append(goes_on(arg))
    return _any_of(failing)


def _all_of(before: list[Expression], fails: Expression | None) -> Expression | None:
    return None if fails is None else ex.joined("and", [*before, fails])


def _any_of(conditions: Iterable[Expression | None]) -> Expression | None:
    known = [one for one in conditions if one is not None]
    return ex.joined("or", known) if known else None


def _is_not_false(node: Expression) -> Expression:
    return boolean("not", boolean("is_true", ex.negate(node)))


def _is_not_true(node: Expression) -> Expression:
    return boolean("not", boolean("is_true", node))
