"""Python functions as part of an Arrow expression, for what Arrow has no function of Spark's meaning for.

What lives here: :func:`call`, which registers a function with Arrow once for the types that it is called
with, the functions on texts, and the one that raises. A function takes arrays of one length and gives one
of that length.
What it does not know: SQL, names, which expression a call is part of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.errors import InvalidPredicate
from deltanb.sql.coercion import arrow_array

Kernel = Callable[..., pa.Array]

_registered: dict[tuple[Kernel, tuple[pa.DataType, ...], pa.DataType], str] = {}
_lock = Lock()


def call(
    kernel: Kernel, args: Sequence[pc.Expression], types: Sequence[pa.DataType], result: pa.DataType
) -> pc.Expression:
    """``kernel`` of the arguments as an expression; ``types`` are theirs, ``result`` that of its arrays.

    What the kernel raises, the evaluation of the expression raises.
    """
    key = (kernel, tuple(types), result)
    with _lock:
        if key not in _registered:  # a table of any schema adds its own: few, and they stay
            name = f"deltanb_{kernel.__name__.strip('_')}_{len(_registered)}"
            names = [f"x{i}" for i in range(len(types))]

            def run(context: Any, *values: pa.Array | pa.Scalar) -> pa.Array:
                count = context.batch_length
                arrays = [pa.repeat(v, count) if isinstance(v, pa.Scalar) else v for v in values]
                return kernel(*arrays)

            pc.register_scalar_function(
                run, name, {"summary": kernel.__name__, "description": kernel.__doc__ or ""},
                dict(zip(names, types, strict=True)), result)
            _registered[key] = name
    return pc.Expression._call(_registered[key], list(args))


def upper(texts: pa.Array) -> pa.Array:
    """Upper case with the letters that become several: ``ß`` is ``SS``."""
    return _mapped(texts, pc.ascii_upper, str.upper)


def lower(texts: pa.Array) -> pa.Array:
    """Lower case with the letters that become several, and the Greek sigma at the end of a word."""
    return _mapped(texts, pc.ascii_lower, str.lower)


def decimal_text(values: pa.Array) -> pa.Array:
    """Decimals as Spark writes them: all digits of their scale, no exponent.

    >>> from decimal import Decimal
    >>> decimal_text(pa.array([Decimal("0.00000010"), Decimal("1.50000000"), None])).to_pylist()
    ['0.00000010', '1.50000000', None]
    """
    if -1 < values.type.scale <= 6:  # below 10**-6 Arrow writes an exponent
        return values.cast(pa.string())
    return arrow_array([None if v is None else format(v, "f") for v in values.to_pylist()], pa.string())


def raise_where(fails: pa.Array, condition: pa.Array, sql: pa.Array) -> pa.Array:
    """The condition, where ``fails`` is TRUE for no row; ``sql`` is what the error shows.

    Raises:
        InvalidPredicate: it is TRUE for one.
    """
    if pc.any(fails).as_py():
        text = sql[0].as_py()
        raise InvalidPredicate(
            f"{text!r} fails for a row: an array index is out of bounds, or a map key is NULL or a "
            "duplicate; Spark raises an error here, too. For an index out of bounds get(a, i) gives NULL "
            "instead, and so does try_element_at(a, i) unless i is 0",
            predicate=text)
    return condition


def _mapped(texts: pa.Array, plain: Any, full: Callable[[str], str]) -> pa.Array:
    if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
        return plain(texts)
    values = texts.cast(pa.binary()).to_pylist()  # files of others may hold bytes that are no text
    return arrow_array([None if value is None else full(value.decode(errors="replace")) for value in values],
                       texts.type)
