"""The beginning of a command: a transaction on an existing table that this library may change in this way.

What lives here: :func:`begin`, and :func:`refuse_append_only` for commands that find out later that they
remove rows.
What it does not know: what the command does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from deltanb.errors import AppendOnlyTable, TableNotFound
from deltanb.schema.protocol import check_writable, is_active
from deltanb.transaction import active

if TYPE_CHECKING:
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.transaction import OptimisticTransaction

Changes = Literal["log", "files", "layout", "rows"]
"""What a command changes: the log alone; which files the table has, by what is in them; where its rows lie;
its rows."""


def begin(
    log: DeltaLog, changes: Changes | None = "log", *, removes: str | None = None, at: int | None = None
) -> OptimisticTransaction:
    """A command's transaction on an existing table.

    Args:
        changes: what the table's features are checked for; None if the command knows only later.
        removes: the name of a command that may remove rows.
        at: the version to read, by default the newest.

    Raises:
        TableNotFound: there is no table.
        UnsupportedProtocol: the table has a feature that this library cannot read or write.
        AppendOnlyTable: rows may be removed, and the table has ``delta.appendOnly=true``.
    """
    txn: OptimisticTransaction = active.begin(log, at)
    if txn.read_version < 0:
        raise TableNotFound(
            f"there is no Delta table at {log.path}; create it with deltanb.create(path, data)",
            path=log.path)
    if changes in ("files", "layout", "rows"):
        txn.snapshot.check_readable()
    if changes is not None:
        check_writable(txn.protocol, txn.metadata, txn.table, writes_data=changes == "rows")
    if changes == "layout":
        from deltanb.engines.arrow.rewriter import (
            plain_metadata,  # late: it reads files, which an append does not
        )

        check_writable(txn.protocol, plain_metadata(txn.metadata), txn.table)
    if removes is not None:
        refuse_append_only(txn, removes)
    return txn


def refuse_append_only(txn: OptimisticTransaction, command: str) -> None:
    """Stop a command that removes rows before it writes any.

    Raises:
        AppendOnlyTable: the table has ``delta.appendOnly=true``.
    """
    if is_active(txn.snapshot.protocol, txn.snapshot.metadata, "appendOnly"):
        raise AppendOnlyTable(
            f"table {txn.table}: this table is configured to only allow appends, so {command} cannot "
            "change its rows. Append rows, or set delta.appendOnly=false first", table=txn.table)
