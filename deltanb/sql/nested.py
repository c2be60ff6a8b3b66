"""Arrays, maps and structs in the predicate language: subscripts and functions, by Spark's rules.

What lives here: which operands each takes, what type it gives, and the nodes that sqlglot makes of them.
What it does not know: how they run (``nested_kernels``), and where Spark raises (``failures``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as t
from sqlglot import exp

from deltanb.sql import coercion as co
from deltanb.sql.expressions import Call, Expression, Literal, boolean
from deltanb.sql.functions import INT, LONG, STRING, Reader, reads
from deltanb.sql.nested_kernels import map_type
from deltanb.sql.syntax import sql_of

if TYPE_CHECKING:
    from deltanb.sql.resolver import Resolver

FUNCTIONS = frozenset({
    "size", "cardinality", "array_size", "array", "map", "array_contains", "element_at", "try_element_at",
    "get", "map_keys", "map_values", "map_contains_key"})


def function(
    resolver: Resolver, name: str, values: Sequence[Expression], node: exp.Expression
) -> Expression:
    """A function of :data:`FUNCTIONS`."""
    match name, len(values):
        case ("size" | "cardinality" | "array_size"), 1:
            return _size(resolver, values[0], name, node)
        case "array", _:
            items = resolver.common(values, node)
            element = items[0].type if items else pa.null()
            return Call("array", tuple(items), _list_of(element)) if items else Literal((), _list_of(element))
        case "map", _ if len(values) % 2 == 0:
            return _map(resolver, values, node)
        case "array_contains", 2:
            return _contains(resolver, values[0], values[1], node)
        case ("element_at" | "try_element_at"), 2:
            return _element(resolver, values[0], values[1], node, is_safe=name.startswith("try"))
        case "get", 2:
            _expect(resolver, t.is_list(values[0].type), "array", values[0], name)
            return _indexed("item_or_null", values[0], _index(resolver, values[1], node))
        case ("map_keys" | "map_values"), 1:
            kind = _expect(resolver, t.is_map(values[0].type), "map", values[0], name)
            return Call(name, (values[0],), _list_of(kind.key_type if name == "map_keys" else kind.item_type))
        case "map_contains_key", 2:
            kind = _expect(resolver, t.is_map(values[0].type), "map", values[0], name)
            keys = Call("map_keys", (values[0],), _list_of(kind.key_type))
            return _contains(resolver, keys, values[1], node)
    resolver.invalid(f"{name} does not take {len(values)} arguments")


def subscript(resolver: Resolver, node: exp.Bracket) -> Expression:
    """``a[0]``, ``m['k']``, ``s['field']``; with an offset of 1 it is ``element_at``."""
    if len(node.expressions) != 1:
        resolver.unsupported(node)
    operand, key = resolver.value(node.this), resolver.value(node.expressions[0])
    if node.args.get("offset"):
        return _element(resolver, operand, key, node, is_safe=bool(node.args.get("safe")))
    if t.is_list(operand.type):
        return _indexed("item", operand, _index(resolver, key, node))
    if t.is_map(operand.type):
        kind = operand.type.key_type
        if t.is_nested(kind):
            resolver.unsupported(node)
        return Call("entry", (operand, resolver.cast(key, kind)), operand.type.item_type)
    if t.is_struct(operand.type) and isinstance(key, Literal) and co.is_text(key.type):
        return field(resolver, operand, str(key.value), node)
    resolver.invalid(f"{co.spark_name(operand.type)} has no elements to take by "
                     f"{sql_of(node.expressions[0])}")


def field(resolver: Resolver, operand: Expression, name: str, node: exp.Expression) -> Expression:
    """A field of a struct, of each struct in an array, or the value of a key in a map."""
    kind = operand.type
    if t.is_map(kind) and co.is_text(kind.key_type):
        return Call("entry", (operand, Literal(name, STRING)), kind.item_type)
    inside = kind.value_type if t.is_list(kind) else kind
    if not t.is_struct(inside):
        resolver.invalid(f"{co.spark_name(kind)} has no field {name!r}")
    names = [f.name.lower() for f in inside]
    if names.count(name.lower()) != 1:
        resolver.invalid(f"no field {name!r} in {sql_of(node)}; the fields are "
                         f"{', '.join(f.name for f in inside)}")
    index = names.index(name.lower())
    field_type = inside.field(index).type
    if t.is_list(kind):
        return Call("fields", (operand, Literal(index, INT)), _list_of(field_type))
    return Call("field", (operand,), field_type, index)


# ---------------------------------------------------------------------------- rules


def _size(resolver: Resolver, operand: Expression, name: str, node: exp.Expression) -> Expression:
    if t.is_null(operand.type):
        return Literal(None, INT)
    is_sized = t.is_list(operand.type) or (name != "array_size" and t.is_map(operand.type))
    _expect(resolver, is_sized, "array", operand, name)
    return Call("size", (operand,), INT)


def _element(
    resolver: Resolver, operand: Expression, key: Expression, node: exp.Expression, *, is_safe: bool
) -> Expression:
    kind = operand.type
    if t.is_list(kind):
        if not t.is_integer(key.type) or key.type == LONG:
            resolver.invalid(f"element_at of an array takes an int, not {co.spark_name(key.type)}")
        return _indexed("element_or_null" if is_safe else "element", operand, resolver.cast(key, LONG))
    _expect(resolver, t.is_map(kind), "array or map", operand, "element_at")
    if t.is_nested(kind.key_type):
        resolver.unsupported(node)
    if key.type != kind.key_type and not (co.is_number(key.type) and co.is_number(kind.key_type)):
        resolver.invalid(f"element_at of a map with keys of {co.spark_name(kind.key_type)} does not take "
                         f"{co.spark_name(key.type)}")
    return Call("entry", (operand, resolver.cast(key, kind.key_type)), kind.item_type)


def _contains(
    resolver: Resolver, array: Expression, value: Expression, node: exp.Expression
) -> Expression:
    kind = _expect(resolver, t.is_list(array.type), "array", array, "array_contains")
    if t.is_null(value.type):
        resolver.invalid("array_contains does not look for NULL")
    element = kind.value_type
    common = co.common_type(element, value.type)
    numbers = co.is_number(element) and co.is_number(value.type)
    if common is None or not (numbers or t.is_null(element) or co.same_shape(element, value.type)):
        resolver.invalid(f"an array of {co.spark_name(element)} does not contain "
                         f"{co.spark_name(value.type)}; add a CAST")
    if not co.is_ordered(element):
        resolver.invalid(f"{co.spark_name(element)} cannot be compared")
    if common != element and not co.same_shape(element, value.type):
        array, value = resolver.cast(array, _list_of(common)), resolver.cast(value, common)
    return boolean("contains_element", array, value)


def _map(resolver: Resolver, values: Sequence[Expression], node: exp.Expression) -> Expression:
    if not values:
        resolver.unsupported(node, "an empty map")
    keys = resolver.common(values[::2], node)
    items = resolver.common(values[1::2], node)
    if t.is_nested(keys[0].type) or t.is_null(keys[0].type) or t.is_null(items[0].type):
        resolver.unsupported(node)
    pairs = tuple(one for pair in zip(keys, items, strict=True) for one in pair)
    return Call("map", pairs, map_type(keys[0].type, items[0].type))


def _index(resolver: Resolver, index: Expression, node: exp.Expression) -> Expression:
    if not (t.is_integer(index.type) or t.is_null(index.type)):
        resolver.invalid(f"an index is an integer, not {co.spark_name(index.type)}, in {sql_of(node)}")
    return resolver.cast(index, LONG)


def _indexed(op: str, array: Expression, index: Expression) -> Expression:
    return Call(op, (array, index), array.type.value_type)


def _expect(
    resolver: Resolver, is_right: bool, kind: str, operand: Expression, name: str
) -> pa.DataType:
    if not is_right:
        resolver.invalid(f"{name} takes an {kind}, not {co.spark_name(operand.type)}")
    return operand.type


def _list_of(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element, True))


# ---------------------------------------------------------------------------- nodes


def _named(name: str, *arguments: str) -> Reader:
    def handler(resolver: Resolver, node: exp.Expression) -> Expression:
        values = [resolver.value(node.args[argument]) for argument in arguments]
        return function(resolver, name, values, node)

    return reads(" ".join(arguments), handler)


def _of_map(resolver: Resolver, node: exp.Expression) -> Expression:
    """``map(k, v, …)``, whose keys and values sqlglot keeps in two arrays."""
    lists = [node.args["keys"], node.args["values"]]
    for one in lists:
        resolver.read(one)
    keys, values = ([resolver.value(item) for item in one.expressions] for one in lists)
    if len(keys) != len(values):
        resolver.invalid(f"{sql_of(node)} has keys without values")
    return function(resolver, "map", [item for pair in zip(keys, values, strict=True) for item in pair], node)


NESTED_NODES: dict[type[exp.Expression], Reader] = {
    exp.Bracket: reads("this expressions offset safe", subscript),
    exp.Array: reads("expressions", lambda resolver, node: function(
        resolver, "array", [resolver.value(item) for item in node.expressions], node)),
    exp.VarMap: reads("keys values", _of_map),
    exp.ArraySize: _named("size", "this"),
    exp.ArrayContains: _named("array_contains", "this", "expression"),
}
for _name, _kind, _arguments in [("map_keys", "MapKeys", ("this",)),
                                 ("map_contains_key", "MapContainsKey", ("this", "key"))]:
    if hasattr(exp, _kind):  # older versions of sqlglot have no node of their own for it
        NESTED_NODES[getattr(exp, _kind)] = _named(_name, *_arguments)
