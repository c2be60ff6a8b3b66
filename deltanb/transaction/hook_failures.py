"""Hooks that failed after a commit, as events: for listeners, and beside the commit in the journal.

What lives here: :class:`HookFailure`, and :func:`tell`, by which the journal and the listeners learn of one.
What it does not know: which hooks there are, when they run.

A listener is a function of one argument:

>>> from deltanb.options import set_options
>>> from deltanb.testing import MemoryStore, TableBuilder
>>> from deltanb.transaction.hooks import FunctionHook
>>> log, heard = TableBuilder(MemoryStore()).create("id long").log, []
>>> txn = log.start_transaction()
>>> txn.register_post_commit_hook(FunctionHook("mail", lambda *_: 1 / 0))
>>> with set_options(hook_failure_listeners=[heard.append]):
...     txn.commit()
1
>>> [(failure.version, failure.hook, failure.error, failure.message) for failure in heard]
[(1, 'mail', 'ZeroDivisionError', 'division by zero')]
>>> txn.hook_failures == tuple(heard)
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltanb.options import options
from deltanb.text.safe_text import redacted, safe
from deltanb.transaction.commit_stats import error_code, tell_listeners
from deltanb.transaction.journal import journal_of

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader
    from deltanb.transaction.steps import Committed

MAX_MESSAGE = 500  # characters: the log of Python has the whole of it


@dataclass(frozen=True)
class HookFailure:
    """A post-commit hook that failed; the commit stands.

    ``version`` and ``txn_id`` are the commit's, ``hook`` is the hook's name. ``error`` is the stable code, or
    else the class, of what it failed with, ``message`` the beginning of its text.

    >>> from deltanb.testing import MemoryStore, TableBuilder
    >>> from deltanb.transaction.hooks import FunctionHook
    >>> txn = TableBuilder(MemoryStore()).create().log.start_transaction()
    >>> txn.register_post_commit_hook(FunctionHook("mail", lambda committed, snapshot: 1 / 0))
    >>> txn.commit()
    1
    >>> [failure] = txn.hook_failures
    >>> failure.hook, failure.version, failure.error
    ('mail', 1, 'ZeroDivisionError')
    """

    table: str
    version: int
    txn_id: str | None
    hook: str
    error: str
    message: str


def tell(log: LogReader, committed: Committed, hook: str, error: Exception) -> None:
    """Tell journal and listeners of a hook that failed; a listener that raises is logged."""
    txn_id = None if committed.transaction is None else committed.transaction.txn_id
    failure = HookFailure(redacted(log.path), committed.version, txn_id, hook, error_code(error),
                          safe(str(error))[:MAX_MESSAGE])
    journal_of(log).hook_failed(failure)
    tell_listeners(options.hook_failure_listeners, failure)
