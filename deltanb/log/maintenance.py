"""What a catalog lets its clients do to a table beside committing rows.

What lives here: the operations, by the names that Unity Catalog has for them, and the check that a command
makes before it writes.
What it does not know: who allows them (``commits``), what a command does.
"""

from __future__ import annotations

from typing import Any

from deltanb.errors import Forbidden

__all__ = ["CLEAN_DATA", "CLEAN_LOG", "REORGANIZE", "check_maintenance"]

REORGANIZE = "DATA_REORGANIZATION"
"""Rewriting rows that stay: OPTIMIZE, REORG."""
CLEAN_DATA = "DATA_CLEANUP"
"""Deleting files that no version needs: VACUUM."""
CLEAN_LOG = "METADATA_CLEANUP"
"""Deleting what the log needs no more, staged commits among it."""


def check_maintenance(log: Any, operation: str, command: str) -> None:
    """Refuse a command that the catalog of a log's table does not allow.

    Raises:
        Forbidden: it does not; nothing was written.

    >>> from deltanb.testing import MemoryStore, TableBuilder
    >>> check_maintenance(TableBuilder(MemoryStore()).create().log, REORGANIZE, "OPTIMIZE")  # no catalog
    """
    reason = log.commits.maintenance_refused(operation)
    if reason is not None:
        raise Forbidden(f"{command} of {getattr(log, 'name', None) or log.path} is not this client's to do: "
                        f"{reason}", path=log.path, operation=operation)
