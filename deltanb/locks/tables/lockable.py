"""Which tables can be changed under locks, and which of them together.

What lives here: :func:`log_of`, from what people give to a table's log; :func:`are_together`; and what is
said where that is refused.
What it does not know: locks, and what is done to a table.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

from deltanb.errors import InvalidArgument
from deltanb.store.base import LogStore
from deltanb.table.staged import StagedTable
from deltanb.table.table import DeltaTable
from deltanb.text import upper
from deltanb.text.safe_text import shown
from deltanb.transaction.delta_log import DeltaLog


def log_of(target: Any) -> DeltaLog:
    """The log of a table, or of what is at a path.

    Raises:
        InvalidArgument: no table, or one that cannot be locked; the message says what else can be done.
    """
    if isinstance(target, StagedTable):
        raise InvalidArgument(
            f"table {target.name} is a part of another transaction; give the table itself: dn.open(path)")
    if isinstance(target, DeltaTable):
        return target._writable("txn.table")
    if isinstance(target, DeltaLog):
        return target
    if isinstance(target, str | os.PathLike | LogStore):
        return DeltaTable.for_path(target).log
    if isinstance(target, upper.IcebergTable):
        raise InvalidArgument(
            f"{target.name} is an Iceberg table, and only parts and rows of Delta tables can be locked; "
            "change it by itself, or together with others in catalog.transaction()")
    raise InvalidArgument(f"a transaction takes a table or its path, found {type(target).__name__}: "
                          f"{shown(target)}; write it like txn.table(dn.open(path))")


def are_together(one: DeltaLog, other: DeltaLog) -> bool:
    """Whether both are of one catalog that commits tables together, by whichever objects people hold of it: a
    store is named by its place and the catalog in it."""
    first, second = one.catalog, other.catalog
    return first is not None and second is not None and first.commits_together and (
        first is second or repr(first.store) == repr(second.store))


def refuse_together(one: DeltaLog, other: DeltaLog) -> NoReturn:
    """Raise why two tables cannot be committed together, and what else can be done."""
    first, second = (f"the table at {log.path}" if log.catalog is None else
                     f"{log.name} of catalog {log.catalog.name}" for log in (one, other))
    by_path = [log for log in (one, other) if log.catalog is None]
    way = "take a transaction for each"
    if by_path:
        what, where = ("both", "one catalog") if len(by_path) == 2 else ("the first" if one in by_path else
                                                                         "the second", "that catalog")
        way += (f"; or register {what} in {where}, whose warehouse must be a folder above: "
                "catalog.register_table(name, path), then txn.table(catalog.table(name))")
    raise InvalidArgument(
        f"{first} and {second} have no log in common, so they cannot be committed together; {way}")
