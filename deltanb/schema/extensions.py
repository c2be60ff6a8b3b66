"""Extension types of Arrow: those that mean the same as a type of Arrow's own, which Delta can store.

What lives here: the known types (:func:`equivalent`), and the refusal of all others (:func:`storable`).
What it does not know: Delta's types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltanb.errors import InvalidSchema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["equivalent", "storable"]


def equivalent(data_type: pa.BaseExtensionType) -> pa.DataType | None:
    """The type of Arrow's own that means what an extension type does; None: there is none.

    >>> import pyarrow as pa
    >>> equivalent(pa.bool8()), equivalent(pa.uuid())
    (DataType(bool), DataType(string))
    """
    import pyarrow as pa

    match data_type.extension_name:
        case "arrow.uuid":
            return pa.string()
        case "arrow.bool8":
            return pa.bool_()
        case "arrow.json" | "arrow.parquet.variant" | "parquet.variant":
            return data_type.storage_type
    return None


_WAYS_OUT = {
    "pandas.period": "give its begin, series.dt.to_timestamp(), or its text, series.astype(str)",
    "pandas.interval": "give its ends as two columns, series.array.left and series.array.right"}


def storable(data_type: pa.BaseExtensionType, path: str) -> pa.DataType:
    """As :func:`equivalent`.

    Raises:
        InvalidSchema: there is none; the error names the column, the type and the way out.
    """
    kind, name = equivalent(data_type), data_type.extension_name
    if kind is None:
        way = _WAYS_OUT.get(name, f"where its storage, {data_type.storage_type}, says enough, give that: "
                                  "pyarrow's array.storage")
        raise InvalidSchema(
            f"column {path!r} has the extension type {name} of Arrow's, and Delta has no type that means the "
            f"same; {way}", column=path)
    return kind
