"""What transactions are called: by whoever makes them, else by the function or the thread that does.

What lives here: the id of a transaction, which knows the name, and where a name comes from that nobody gave.
What it does not know: who shows it.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Final

from deltanb.concurrency.stacks import name_of_this
from deltanb.errors import InvalidArgument
from deltanb.text.safe_text import escaped, shown

MAX_NAME: Final = 40  # characters: messages and lanes name several transactions
PASSED: Final = frozenset({__name__.partition(".")[0], "contextlib", "threading", "concurrent"})
"""Packages whose functions name nothing: this one, and what calls functions for others."""


class TransactionId(int):
    """The id of a transaction that knows what the transaction is called: as text it is both.

    >>> ann = TransactionId.named(3, "ann")
    >>> ann == 3, str(ann), str(TransactionId.named(4))
    (True, 'ann #3', '4')
    """

    name: str
    """Empty where there is none."""

    @classmethod
    def named(cls, number: int, name: str = "") -> TransactionId:
        """An id with a name."""
        made = cls(number)
        made.name = name
        return made

    def __str__(self) -> str:
        return f"{self.name} #{int(self)}" if self.name else int.__repr__(self)

    __repr__ = int.__repr__


def own_name(transaction: int) -> str:
    """The name that an id has; empty for one without, and for a number."""
    return str(getattr(transaction, "name", ""))


def called(transaction: int, most: int | None = None) -> str:
    """A transaction in a sentence, or in so many characters of a picture if it has a name.

    >>> called(TransactionId.named(3, "ann")), called(4), called(TransactionId.named(12, "nightly load"), 12)
    ('ann #3', 'transaction 4', 'nightly… #12')
    """
    if not own_name(transaction):
        return f"transaction {transaction}"
    return str(transaction) if most is None else fitted(transaction, most)


def fitted(transaction: int, most: int) -> str:
    """Name and number in so many characters; the name is cut.

    >>> fitted(TransactionId.named(12, "nightly load"), 12), fitted(4, 12)
    ('nightly… #12', '4')
    """
    name = own_name(transaction)
    if not name:
        return str(transaction)
    room = most - len(f" #{int(transaction)}")
    return str(TransactionId.named(transaction, name if len(name) <= room else f"{name[:room - 1]}…"))


def chosen_name(name: Any) -> str:
    """The name of a new transaction: the argument, or for None the function or thread that calls this one.

    >>> chosen_name("ann"), chosen_name("")
    ('ann', '')

    Raises:
        InvalidArgument: no text.
    """
    if name is None:
        return _caller()
    if not isinstance(name, str):
        raise InvalidArgument(
            f"name takes what a transaction is called, as text, found {type(name).__name__}: {shown(name)}")
    return short(name)


def short(name: str) -> str:
    """A name on one line, and no longer than messages have room for."""
    name = escaped(name)
    return name if len(name) <= MAX_NAME else name[:MAX_NAME - 1] + "…"


def _caller() -> str:
    """The function outside this library that is running; of a module or a cell, the thread, if it is another
    than the main one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in PASSED:
        frame = frame.f_back
    if frame is not None and not frame.f_code.co_name.startswith("<"):
        return short(frame.f_code.co_name)
    return short(name_of_this())
