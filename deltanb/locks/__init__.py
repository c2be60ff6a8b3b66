"""Locks and nested scopes: the pessimistic way to keep transactions apart, beside the optimistic commit.

What lives here: lock managers and their transactions, in one process, and an index in memory to use them on.
What it does not know: tables, their logs, other processes.

>>> import deltanb as dn
>>> manager = dn.locks.LockManager()
>>> index = dn.testing.MemoryIndex(1, {"k": "v"})
>>> with manager.new_transaction() as txn:
...     index.store(txn, "k", "w")
...     txn.commit()
>>> index.load(None, "k")
'w'
"""

from __future__ import annotations

from deltanb.locks.core import bogus as _bogus
from deltanb.locks.core.commit import CommitCallback as CommitCallback
from deltanb.locks.core.commit import Participant as Participant
from deltanb.locks.core.deadlock import Cycle as Cycle
from deltanb.locks.core.deadlock import DeadlockItem as DeadlockItem
from deltanb.locks.core.deadlock import Wait as Wait
from deltanb.locks.core.graph import LockGraph as LockGraph
from deltanb.locks.core.manager import LockManager as LockManager
from deltanb.locks.core.modes import DurabilityMode as DurabilityMode
from deltanb.locks.core.modes import LockMode as LockMode
from deltanb.locks.core.modes import LockResult as LockResult
from deltanb.locks.core.modes import UpgradeRule as UpgradeRule
from deltanb.locks.core.states import LockState as LockState
from deltanb.locks.core.transaction import Transaction as Transaction
from deltanb.text.completion import offered

assert _bogus  # Transaction.BOGUS

__dir__ = offered(globals())
