"""Which tables processes of Spark find by their paths, and what hides the others from them.

What lives here: :func:`check_reachable`, over the kinds of :data:`HIDDEN`.
What it does not know: what those processes are to do, and what people can do instead; callers say both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deltanb.errors import IllegalStateError, InvalidArgument
from deltanb.store.base import is_remote

if TYPE_CHECKING:
    from deltanb.transaction.delta_log import DeltaLog

__all__ = ["HIDDEN", "check_reachable"]


def _has_own_committer(log: DeltaLog) -> bool:
    try:
        log.__reduce__()
    except IllegalStateError:
        return True
    return False


def _is_in_memory(log: DeltaLog) -> bool:
    return log.store.local_path("") is None and not is_remote(log.store)


def _has_credentials(log: DeltaLog) -> bool:
    access: Any = getattr(log.store, "access", None)
    return access is not None and bool(access.has_secrets)


HIDDEN: Mapping[str, tuple[str, Callable[[DeltaLog], bool]]] = {
    "committer": (
        "is committed to by a catalog, a transaction, or a committer of its own", _has_own_committer),
    "memory": ("is in this process alone", _is_in_memory),
    "credentials": ("was opened with credentials, which stay in this process", _has_credentials),
}
"""What keeps a table from processes that have its path -> as a message says it, and whether a log has it."""


def check_reachable(log: DeltaLog, who: str, ways: Mapping[str, str]) -> None:
    """Refuse a table that processes of Spark do not find by its path.

    Args:
        who: a clause that says who is to find it.
        ways: for each kind of :data:`HIDDEN` that matters to them, a sentence with the way out.

    Raises:
        InvalidArgument: with the way out.

    >>> from deltanb.testing import MemoryStore, TableBuilder
    >>> check_reachable(TableBuilder(MemoryStore("memory:///ducks")).create().log, "a server reads it",
    ...                 {"memory": "Keep it in a folder"})
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidArgument: memory:///ducks is in this process alone, and a server reads it. Keep ...
    """
    for kind, (sentence, is_hidden) in HIDDEN.items():
        if kind in ways and is_hidden(log):
            raise InvalidArgument(f"{log.path} {sentence}, and {who}. {ways[kind]}", path=log.path)
