"""Tables opened by their names in a catalog, without the catalog in hand.

What lives here: :func:`open_named`.
What it does not know: which texts are names (``table/entry``), how a catalog is asked.
"""

from __future__ import annotations

from typing import Any

from deltanb.catalog.rest.client.catalog import connect
from deltanb.catalog.unity.client.address import Address, parse_address
from deltanb.errors import InvalidArgument
from deltanb.options import catalog_place
from deltanb.store.uris import is_of_unity
from deltanb.table.table import DeltaTable
from deltanb.text.safe_text import shown

__all__ = ["open_named"]


def open_named(name: str, **connection: Any) -> DeltaTable:
    """The table at an address of Unity Catalog, or called ``catalog.schema.table`` in the catalog of the
    options; ``connection`` are arguments of :func:`deltanb.connect`.

    Raises:
        InvalidArgument: it names no table, or one of another catalog.
        TableNotFound: there is none of the name.
    """
    if is_of_unity(name):
        at = parse_address(name)
        if len(at.name) != 2:
            raise InvalidArgument(f"{name} names no table; the address of one is uc://host/catalog.schema.table")
        return _opened(connect(str(Address(at.url, at.catalog)), **connection), at.name)
    place = catalog_place()
    own, _, rest = name.partition(".")
    if is_of_unity(place):  # the server's; which of its catalogs, the name says
        place = str(Address(parse_address(place).url, own))
    catalog = connect(place, **connection) if isinstance(place, str) else place
    if not isinstance(place, str) and any(connection.values()):
        raise InvalidArgument(
            f"the catalog {shown(catalog.name)} of the options is connected already; arguments of a "
            "connection go with an address")
    if catalog.name != own:
        raise InvalidArgument(
            f"{name} is in the catalog {shown(own)}, and the one of the options is {shown(catalog.name)}")
    return _opened(catalog, rest)


def _opened(catalog: Any, name: Any) -> DeltaTable:
    table: DeltaTable = catalog.table(((name[0],), name[1]) if isinstance(name, tuple) else name)
    return table
