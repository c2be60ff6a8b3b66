"""Work that is done again after a conflict: which run of it a commit belongs to.

What lives here: :class:`Run`, and :data:`running`, the run that this context is in the middle of.
What it does not know: who does work again, and why.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["Run", "running"]


@dataclass(frozen=True)
class Run:
    """One run of some work: ``work`` is the same number for all runs of it in this process, ``number`` counts
    them from 1."""

    work: int
    number: int


running: ContextVar[Run | None] = ContextVar("running", default=None)
"""The run that commits of this context belong to; None where nobody would do them again."""
