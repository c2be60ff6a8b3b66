"""Work that is repeated after a conflict, and the run of it that a commit belongs to.

What lives here: :class:`WorkRun`, and :data:`running`, the current run of this context.
What it does not know: who repeats work, and why.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["WorkRun", "pause", "running", "sleeping"]


@dataclass(frozen=True)
class WorkRun:
    """One run of some work: ``work`` is the same number for all runs of it in this process, ``number`` counts
    them from 1."""

    work: int
    number: int


running: ContextVar[WorkRun | None] = ContextVar("running", default=None)
"""The run that commits of this context belong to; None where nobody would do them again."""

sleeping: ContextVar[Callable[[float], object]] = ContextVar("sleeping", default=time.sleep)
"""How :func:`deltanb.retry` waits in this context, in seconds; a commit waits as its driver does."""


def pause(seconds: float) -> None:
    """Wait, as this context does."""
    sleeping.get()(seconds)
