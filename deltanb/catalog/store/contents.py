"""The contents of a place in a warehouse, checked before a table takes it and before anything is deleted.

What lives here: :func:`require_vacant` and :func:`delete_folder`. A folder with files belongs to someone
even if no catalog has a table there; so do files in the folder of an unregistered table.
What it does not know: tables of a catalog (``ownership``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from itertools import accumulate

from deltanb.log.commits import LOG_FOLDER
from deltanb.store.base import LogStore

__all__ = ["delete_folder", "first_file", "table_around"]

# A table's folder is what comes before its log, or before the folder of its metadata files.
_OF_A_TABLE = re.compile(rf"(?:(.*)/)?(?:{LOG_FOLDER}/.+|metadata/[^/]+\.metadata\.json(?:\.gz)?)")


def first_file(
    store: LogStore, name: str, spared: Iterable[str] = (), but: Collection[str] = ()
) -> str | None:
    """The name of a file below a folder, outside of ``spared`` folders and not among ``but``; None if
    none."""
    starts = tuple(f"{folder}/" for folder in spared)
    for file in store.list_all(name):
        if not file.name.startswith(starts or "\0") and file.name not in but:
            return file.name
    return None


def table_around(store: LogStore, name: str) -> str | None:
    """The folder above a place, up to the store's root (""), with a table's log or metadata, or None.

    >>> from deltanb.store.local import LocalStore
    >>> lake = LocalStore("lake")
    >>> _ = lake.put_if_absent("orders/_delta_log/00000000000000000000.json", b"{}")
    >>> table_around(lake, "orders/2026/05"), table_around(lake, "orders2")
    ('orders', None)
    """
    folders = ["", *accumulate(name.split("/")[:-1], "{}/{}".format)]
    for folder in folders:
        start = f"{folder}/" if folder else ""
        if next(iter(store.list_from(f"{start}{LOG_FOLDER}/")), None) is not None or any(
                _OF_A_TABLE.fullmatch(file.name) for file in store.list_from(f"{start}metadata/")):
            return folder
    return None


def delete_folder(store: LogStore, folder: str = "", is_new: bool = False) -> list[str]:
    """Delete all files of a table's folder, those of its log first, so that no reader finds half a table.

    Folders inside with their own log or metadata belong to other tables; they stay and are returned. So does
    a folder of metadata files if the Delta table ``is_new``, since someone else began a table there. What
    cannot be deleted stays, too.
    """
    start = f"{folder}/" if folder else ""
    names = [file.name[len(start):] for file in store.list_all(folder)]
    matches = (_OF_A_TABLE.fullmatch(name) for name in names)
    others = sorted({match[1] or "metadata" for match in matches if match is not None and (
        match[1] or (is_new and match[0].startswith("metadata/")))})
    spared = tuple(f"{folder}/" for folder in others)
    for name in sorted(names, key=lambda name: not name.startswith(f"{LOG_FOLDER}/")):
        if not name.startswith(spared or "\0"):
            with suppress(OSError):
                store.delete(start + name)
    return others
