"""Threads of the library: what they work on is the same as in the thread that started them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any


class Workers(ThreadPoolExecutor):
    """A pool whose threads see the settings, and all other context, of whoever hands them work.

    >>> from deltanb.options import options, set_options
    >>> with set_options(max_rows=3), Workers(2) as pool:
    ...     pool.submit(lambda: options.max_rows).result()
    3
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As ThreadPoolExecutor's; ``map`` goes through it, too."""
        return super().submit(copy_context().run, fn, *args, **kwargs)
