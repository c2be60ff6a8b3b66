"""Where files are written that can be made again from the log.

Lives here: the choice not to wait for the disk when a checksum or the checkpoint hint is written. A
commit must survive a power cut; these need not, and readers ignore them when they are torn.

Does not know: what is in the files.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from deltanb.log.store import LocalStore

if TYPE_CHECKING:
    from deltanb.log.store import LogStore


def unsynced(store: LogStore) -> LogStore:
    """The same folder, written without fsync; other kinds of store as they are.

    >>> unsynced(LocalStore("/lake/t"))
    LocalStore('/lake/t')
    """
    return _unsynced(store.root) if type(store) is LocalStore else store


@lru_cache(maxsize=64)
def _unsynced(root: str) -> LocalStore:
    return LocalStore(root, durability="none")
