"""What a failed commit leaves for people: a page, if they have asked for one.

What lives here: :func:`leave_report`, called at the end of each commit that failed or whose outcome is
unknown: by ``commit()``, by the steppers, and by a catalog's transaction for all of its tables. Code that
drives ``commit_steps()`` by hand calls it as well to get a page.
What it does not know: what is on the page, and how it is written. ``observe/report`` knows; it is found by
name and loaded by the first commit that leaves a page.
"""

from __future__ import annotations

from typing import Any

from deltanb.errors import CommitOutcomeUnknown, DeltaError, add_note
from deltanb.options import report_folder
from deltanb.text import upper
from deltanb.text.safe_text import get_logger

__all__ = ["leave_report"]

logger = get_logger("deltanb.transaction")


def leave_report(txn: Any) -> None:
    """Write the page of a transaction that has failed, of one table or of several, and log where it is.

    Nothing happens if nobody asked for pages, or if the commit was given up on purpose. A page that cannot be
    written is a warning in the log: the commit's error goes on as it is.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> table = dn.create(MemoryStore(), {"id": [1]})
    >>> txn = table.start_transaction()
    >>> leave_report(txn)  # it has not failed
    """
    error = getattr(txn, "error", None)
    has_failed = txn.status == "failed" and isinstance(error, DeltaError)
    if not has_failed and txn.status != "unknown":
        return
    folder = report_folder()
    if folder is None:
        return
    what = "A commit whose outcome is unknown" if txn.status == "unknown" else "A failed commit"
    why = type(error or CommitOutcomeUnknown).__name__
    try:
        path = upper.write_report(txn, folder)
    except Exception as reason:
        logger.warning("%s (%s): its report cannot be written to %s: %s: %s", what, why, folder,
                       type(reason).__name__, reason)
        return
    logger.warning("%s (%s): its report is %s", what, why, path)
    if error is not None:
        add_note(error, f"The report of this commit is {path}")
