"""Which files of a folder are a table's data: one answer for VACUUM, verifications and checkups.

What lives here: :func:`outside_logs`, a listing without logs, which finds the tables in folders inside;
:func:`is_of_another`, whether a file is one of theirs; :func:`hidden_from_vacuum`.
What it does not know: which of these files a version needs.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from deltanb.commands.rows.change_files import CHANGE_FOLDER
from deltanb.errors import DeltaError
from deltanb.log.commits import LOG_FOLDER
from deltanb.store.local import is_temporary_vector
from deltanb.store.paths import Inside, can_be_named

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.store.base import FileStatus


def outside_logs(statuses: Iterable[FileStatus], tables: set[str]) -> Iterator[FileStatus]:
    """The files of a listing that are in no log. ``tables`` gets the folders inside that have a log of their
    own, and all of them only by the end of the listing.

    >>> from deltanb.store.base import FileStatus
    >>> names = ["_delta_log/0.json", "a", "b/_delta_log/0.json", "b/c"]
    >>> tables = set()
    >>> [one.name for one in outside_logs((FileStatus(name, 1, 1) for name in names), tables)], tables
    (['a', 'b/c'], {'b'})
    """
    for status in statuses:
        folder, log, _ = status.name.partition(f"/{LOG_FOLDER}/")
        if log:
            tables.add(folder)
        elif not status.name.startswith(f"{LOG_FOLDER}/"):
            yield status


def is_of_another(name: str, tables: Collection[str]) -> bool:
    """Whether a file is below one of these folders, each of which is a table's.

    >>> is_of_another("b/p=1/c", {"b"}), is_of_another("bc/d", {"b"})
    (True, False)
    """
    while tables and (name := posixpath.dirname(name)):
        if name in tables:
            return True
    return False


def hidden_from_vacuum(snapshot: Snapshot, inside: Inside) -> Callable[[str], bool]:
    """A function whether VACUUM must not delete a name: hidden files and folders, except partitions and
    change data; files in the log, also through a link; names that no log could hold.
    """
    columns = {*snapshot.partition_columns}
    with suppress(DeltaError):  # a schema that cannot be read: more is hidden then, and nothing lost
        columns |= {snapshot.schema.field(column).physical_name for column in snapshot.partition_columns}
    open_names = tuple(f"{column}=" for column in columns if column[:1] in "_.")
    log = tuple(f"{key}/" for key in inside.keys_of(LOG_FOLDER))

    def test(name: str) -> bool:
        if inside.key(name).startswith(log) or not can_be_named(name):
            return True
        *folders, _ = parts = name.split("/")
        if parts[0] == CHANGE_FOLDER:
            folders, parts = folders[1:], parts[1:]
        if folders and is_temporary_vector(name):  # one with a random prefix; ``leftovers`` has the others
            parts = folders
        return any(part[:1] in ("_", ".") and not (part in folders and part.startswith(open_names))
                   for part in parts)

    return test
