"""The report of a failed commit: one HTML page, which can be opened anywhere.

What lives here: the contents of the page, its name, and how many of them a folder keeps.
What it does not know: which commits leave one (``transaction/failed``), how a page looks
(``notebook/drawing/page``).

A page is self-contained: no scripts, nothing from the network. Its name has the table, the version that was
tried or the winner's, the kind of the error and the transaction's id; characters that do not belong into file
names become ``_``. The same failure of the same transaction has the same name. Beyond
:data:`MAX_REPORTS` the oldest reports of the folder are deleted; nothing else in it is touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltanb._version import __version__
from deltanb.observe.timeline import CommitTimeline, Mark
from deltanb.store.drafts import write_whole
from deltanb.text import formatting as units
from deltanb.text import upper
from deltanb.text.display import views

if TYPE_CHECKING:
    from deltanb.catalog.transaction import CatalogTransaction
    from deltanb.transaction.transaction import OptimisticTransaction

__all__ = ["AROUND", "MAX_REPORTS", "write_report"]

MAX_REPORTS = 100  # pages a folder keeps: some 10 MB, and more than anybody looks through
AROUND = 5  # commits shown before what was read and after the winner
MAX_COMMITS = 60  # of a timeline in all: a transaction may have read long ago
MAX_PART = 40  # characters of a part of a page's name
FIRST_LINE = "<!doctype html><!-- a report of deltanb -->"
"""What every report begins with: by it a folder's reports are told from other pages."""

THIS = Mark("this commit")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def write_report(txn: Any, folder: str) -> str:
    """Write the page of a failed transaction and delete the oldest pages; returns the page's path.

    Args:
        txn: a transaction of a table or a catalog whose commit has ended.
        folder: created if it does not exist.

    Raises:
        OSError: the page cannot be written.

    >>> import os
    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"], "nephews": [3]})
    >>> txn = table.start_transaction()
    >>> [duck] = txn.filter_files("nephews > 1")
    >>> _ = table.append({"name": ["Scrooge"], "nephews": [2]})
    >>> with dn.set_options(report="reports"):
    ...     try:
    ...         _ = txn.commit([duck.remove()], "DELETE")
    ...     except dn.errors.ConcurrentAppendException as error:
    ...         print(os.listdir("reports")[0].replace(txn.txn_id, "<transaction>"))
    deltanb-ducks-v1-ConcurrentAppend-<transaction>.html
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    path = (place / _name(txn)).absolute()
    write_whole(path, f"{FIRST_LINE}\n{_page(txn)}".encode("utf-8", "replace"))
    with suppress(OSError):
        _clear_away(place, path)
    return str(path)


# -- files -----------------------------------------------------------------------------------------


def _name(txn: Any) -> str:
    conflict = txn.conflict
    version = getattr(txn.error, "version", None) if conflict is None else conflict.version
    parts = [_subject(txn), *([f"v{version}"] if isinstance(version, int) else []), _kind(txn), txn.txn_id]
    return "-".join(["deltanb", *(_UNSAFE.sub("_", str(part))[:MAX_PART] or "_" for part in parts)]) + ".html"


def _clear_away(folder: Path, newest: Path) -> None:
    reports = [file for file in folder.glob("deltanb-*.html") if file.is_file() and not file.is_symlink()]
    if len(reports) <= MAX_REPORTS:
        return
    by_age = sorted((file.stat().st_mtime_ns, file.name, file) for file in reports
                    if file.name != newest.name)
    for _, _, file in by_age[:len(reports) - MAX_REPORTS]:
        with suppress(OSError):
            if _is_report(file):
                file.unlink()


def _is_report(file: Path) -> bool:
    with open(file, "rb") as opened:
        return opened.read(len(FIRST_LINE)) == FIRST_LINE.encode()


# -- what is on the page ---------------------------------------------------------------------------


def _page(txn: Any) -> str:
    what = "a transaction of catalog" if _is_group(txn) else f"{_operation(txn)} on"
    page: str = views().page(f"{_kind(txn)}: {what} {_subject(txn)}", list(_parts(txn)))
    return page


def _parts(txn: Any) -> Iterator[tuple[str, Any]]:
    """Headings, each with an object or text to show below it."""
    is_group = _is_group(txn)
    yield "", _facts(txn, is_group)
    yield "What happened", txn if txn.conflict is None or is_group else txn.conflict
    try:
        timeline = _of_catalog(txn) if is_group else _of_table(txn)
    except Exception as error:  # what failed the commit may keep the log from being read
        yield "The commits around it", f"They cannot be read: {type(error).__name__}: {error}"
    else:
        yield "The commits around it", timeline
    if txn.error is not None:
        message = getattr(txn.error, "message", None) or str(txn.error)
        yield "The error", f"{type(txn.error).__name__}: {message}"


def _facts(txn: Any, is_group: bool) -> dict[str, str]:
    prepared = None if is_group else txn.prepared
    info = None if prepared is None else prepared.commit_info
    facts = {"catalog" if is_group else "table": _place(txn, is_group), "transaction": txn.txn_id}
    if info is not None:
        facts["operation"] = _operation(txn)
        facts["writer"] = info.user_name or "not named"
        facts["prepared"] = units.time(info.timestamp)
    facts["written by"] = f"deltanb {__version__}"
    return facts


def _of_table(txn: OptimisticTransaction) -> CommitTimeline:
    """The timeline from the version read to the winner, with a few commits on both sides."""
    met = _version(txn)
    newest = txn.log.update().version
    first = max(0, min(txn.read_version, met) - AROUND, met - MAX_COMMITS)
    last = met + AROUND
    return CommitTimeline.of(txn.log, min(first, max(newest, 0)), None if last >= newest else last,
                             marks={txn.txn_id: THIS})


def _of_catalog(txn: CatalogTransaction) -> CommitTimeline:
    first = max(1, txn.read_seq - AROUND)
    return upper.CatalogTimeline.of(
        txn.catalog, first, first + MAX_COMMITS, marks={txn.txn_id: THIS})


def _version(txn: OptimisticTransaction) -> int:
    """The version it met last: the winner's, or the one it tried."""
    if txn.conflict is not None:
        return int(txn.conflict.version)
    known = [*(lost.version for lost in txn.attempts), getattr(txn.error, "version", None)]
    return max((v for v in known if isinstance(v, int)), default=txn.read_version + 1)


def _is_group(txn: Any) -> bool:
    return hasattr(txn, "catalog")


def _subject(txn: Any) -> str:
    return str(txn.catalog.name if _is_group(txn) else txn.table)


def _operation(txn: OptimisticTransaction) -> str:
    return "a transaction" if txn.prepared is None else txn.prepared.operation.name


def _place(txn: Any, is_group: bool) -> str:
    return str(txn.catalog.warehouse.uri if is_group else txn.log.path)


def _kind(txn: Any) -> str:
    """The error's name without its last word; for an interrupted commit, that its outcome is unknown."""
    name = type(txn.error).__name__ if txn.error is not None else ""
    return "CommitOutcomeUnknown" if txn.status == "unknown" else name.removesuffix("Exception")
