"""Backoff: how long a commit waits before it is tried again, after a lost race or an answer that got lost.

What lives here: :func:`pause`, which asks ``options.backoff`` for the seconds before a retry; without it the
next attempt follows at once.
What it does not know: how many attempts there may be (``commit``), who waits (``drive``), and the backoff of
``dn.retry``, which repeats the work itself (``locks/tables/retrying.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from deltanb.transaction.steps import Backoff, Step

if TYPE_CHECKING:
    from deltanb.transaction.commit import Run


def pause(run: Run, backoff: Callable[[int], float] | None) -> Generator[Step, Any, None]:
    """The step that waits before the next attempt; none where there is nothing to wait for.

    Args:
        run: the commit; its attempts are counted from 1, those that got no answer, too.
        backoff: seconds before attempt n; None is none.
    """
    attempt = run.attempt + run.silent
    seconds = backoff(attempt) if backoff is not None else 0.0
    if seconds > 0:
        reply = yield run.at(Backoff(attempt, seconds))
        if isinstance(reply, BaseException):
            raise reply
