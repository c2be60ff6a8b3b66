"""The transaction that is none: ``Transaction.BOGUS``.

What lives here: that transaction, which is made here, once.
What it does not know: anything that a transaction does.
"""

from __future__ import annotations

from typing import Any

from deltanb.errors import IllegalStateError
from deltanb.locks.core.modes import DurabilityMode, LockMode
from deltanb.locks.core.transaction import Transaction


class _Bogus(Transaction):
    """No transaction at all. Ending it does nothing; what would lock, or change it, is refused."""

    __slots__ = ()

    def __init__(self) -> None:
        self._lock_mode = LockMode.UNSAFE
        self._lock_timeout = 0
        self._durability = DurabilityMode.NO_REDO
        self._scopes = []
        self._changes = []

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise IllegalStateError(
            "Transaction.BOGUS is not a transaction: it has no locks, scopes, settings or attachments; take "
            "one from manager.new_transaction()")

    def _nothing(self, *_: Any) -> Any:
        """There is nothing to end, and nobody waits."""

    lock_mode = property(lambda self: self._lock_mode, _refuse)
    lock_timeout = property(lambda self: self._lock_timeout, _refuse)
    durability_mode = property(lambda self: self._durability, _refuse)
    manager = property(_nothing)
    id = last_locked_index = property(lambda self: 0)
    name = property(lambda self: "")
    is_bogus = is_valid = property(lambda self: True)
    waiting = attachment = last_locked_key = property(_nothing)
    commit = commit_all = exit = close = rollback = flush = _nothing
    reset = _nothing  # type: ignore[assignment]
    enter = check = attach = scope = _refuse
    lock_check = unlock = unlock_to_shared = unlock_combine = _refuse
    lock_many = changed = give_back = operation = table = cursor = _refuse
    lock_shared = lock_upgradable = lock_exclusive = _try_lock = _refuse

    def was_acquired(self, index_id: int, key: bytes) -> bool:
        return False

    def interrupt(self) -> bool:
        return False


Transaction.BOGUS = _Bogus()
