"""The words of locking: what a lock is held in, what a request answers, how a transaction reads.

What lives here: the modes of a lock and which of them go together, results, lock modes of a transaction,
upgrade rules, durability, and how a lock is named in a message.
What it does not know: who holds or waits (``core``), any thread or clock.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, TypeVar

from deltanb.errors import InvalidArgument
from deltanb.safe_text import shown

NONE, SHARED, UPGRADABLE, EXCLUSIVE = range(4)
"""What a transaction holds of a lock, or wants of it; each is stronger than those before it."""

MODE_NAMES: Final = ("unlocked", "shared", "upgradable", "exclusive")

COMPATIBLE: Final = {
    # held by one,  asked by another: together?
    (SHARED, SHARED): True,
    (SHARED, UPGRADABLE): True,
    (SHARED, EXCLUSIVE): False,
    (UPGRADABLE, SHARED): True,
    (UPGRADABLE, UPGRADABLE): False,
    (UPGRADABLE, EXCLUSIVE): False,
    (EXCLUSIVE, SHARED): False,
    (EXCLUSIVE, UPGRADABLE): False,
    (EXCLUSIVE, EXCLUSIVE): False,
}
"""Any number share, one of them may be the one that can upgrade, and who writes is alone."""

Name = tuple[int, bytes]
"""What a lock is called: the id of an index, and a key in it."""


class _Word(str, Enum):
    """A name that is equal to its text."""

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__
    __hash__ = str.__hash__


class LockResult(_Word):
    """What a request for a lock came to.

    >>> LockResult.ACQUIRED, LockResult.ACQUIRED == "ACQUIRED"
    (ACQUIRED, True)
    >>> LockResult.UPGRADED.is_held, LockResult.OWNED_SHARED.is_acquired
    (True, False)
    """

    ILLEGAL = "ILLEGAL"
    """A shared lock is held, and the upgrade rule does not let it become a stronger one."""
    INTERRUPTED = "INTERRUPTED"
    """Another thread ended the wait, or the lock manager is closed."""
    TIMED_OUT_LOCK = "TIMED_OUT_LOCK"
    """The lock was not free in time."""
    DEADLOCK = "DEADLOCK"
    """Transactions wait for each other; calls raise ``DeadlockError`` in place of returning this."""
    ACQUIRED = "ACQUIRED"
    """Granted; the transaction did not hold this lock before."""
    UPGRADED = "UPGRADED"
    """Granted; what was held before has become exclusive."""
    OWNED_SHARED = "OWNED_SHARED"
    """Held already, shared."""
    OWNED_UPGRADABLE = "OWNED_UPGRADABLE"
    """Held already, upgradable; or a shared lock was made upgradable where it stood."""
    OWNED_EXCLUSIVE = "OWNED_EXCLUSIVE"
    """Held already, exclusive."""
    UNOWNED = "UNOWNED"
    """Not held."""

    @property
    def is_held(self) -> bool:
        """Whether the transaction holds the lock."""
        return self.is_acquired or self.is_already_owned

    @property
    def is_acquired(self) -> bool:
        """Whether the call took something that is to be unlocked again."""
        return self in (LockResult.ACQUIRED, LockResult.UPGRADED)

    @property
    def is_already_owned(self) -> bool:
        """Whether the lock was held before: no extra unlock belongs to this call."""
        return self.name.startswith("OWNED")

    @property
    def is_timed_out(self) -> bool:
        """Whether the wait ended before the lock was free."""
        return self is LockResult.TIMED_OUT_LOCK


OWNED: Final = (LockResult.UNOWNED, LockResult.OWNED_SHARED, LockResult.OWNED_UPGRADABLE,
                LockResult.OWNED_EXCLUSIVE)
"""What ``lock_check`` answers, by the mode that is held."""


class LockMode(_Word):
    """How a transaction reads; it writes under exclusive locks in every mode but ``UNSAFE``.

    ==================  ======================  ============================  =======================
    mode                a read locks            and keeps that                sees uncommitted rows
    ==================  ======================  ============================  =======================
    UPGRADABLE_READ     upgradable              to the end of the scope       no, it waits
    REPEATABLE_READ     shared                  to the end of the scope       no, it waits
    READ_COMMITTED      shared                  until the row is read         no, it waits
    READ_UNCOMMITTED    nothing                                               yes
    UNSAFE              nothing                                               yes; writes are permanent
    ==================  ======================  ============================  =======================
    """

    UPGRADABLE_READ = "UPGRADABLE_READ"
    REPEATABLE_READ = "REPEATABLE_READ"
    READ_COMMITTED = "READ_COMMITTED"
    READ_UNCOMMITTED = "READ_UNCOMMITTED"
    UNSAFE = "UNSAFE"

    @property
    def is_repeatable(self) -> bool:
        """Whether what was read stays locked to the end of the scope."""
        return self in (LockMode.UPGRADABLE_READ, LockMode.REPEATABLE_READ)

    @property
    def is_dirty(self) -> bool:
        """Whether reads take no locks, and so see what is not committed."""
        return self in (LockMode.READ_UNCOMMITTED, LockMode.UNSAFE)


class UpgradeRule(_Word):
    """Whether a shared lock may become a stronger one.

    ``STRICT``: never. ``LENIENT``: where its holder is the only one. ``UNCHECKED``: always, and it waits
    for the others; two holders that both do so are a deadlock.
    """

    STRICT = "STRICT"
    LENIENT = "LENIENT"
    UNCHECKED = "UNCHECKED"


class DurabilityMode(_Word):
    """What is done for a commit before its locks go.

    ``SYNC``: everything is on disk. ``NO_SYNC``: everything is handed to the operating system.
    ``NO_FLUSH``: the commit waits in a queue, with its exclusive locks, until somebody calls ``flush()``.
    ``NO_REDO``: nothing is logged; indexes that are only in memory allow it, tables refuse it.
    """

    SYNC = "SYNC"
    NO_SYNC = "NO_SYNC"
    NO_FLUSH = "NO_FLUSH"
    NO_REDO = "NO_REDO"


W = TypeVar("W", bound=_Word)


def word(kind: type[W], value: Any, where: str) -> W:
    """A member of an enumeration, from itself or its name.

    >>> word(LockMode, "UNSAFE", "lock_mode")
    UNSAFE
    >>> word(LockMode, None, "lock_mode")
    Traceback (most recent call last):
    deltanb.errors.InvalidArgument: lock_mode takes one of UPGRADABLE_READ, REPEATABLE_READ, \
READ_COMMITTED, READ_UNCOMMITTED, UNSAFE, found NoneType: None

    Raises:
        InvalidArgument: anything else.
    """
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(member.name for member in kind)
        raise InvalidArgument(
            f"{where} takes one of {names}, found {type(value).__name__}: {shown(value)}") from None


def named(index_id: Any, key: Any) -> Name:
    """The name of a lock, checked; bytes that can change are copied.

    >>> named(1, bytearray(b"k"))
    (1, b'k')

    Raises:
        InvalidArgument: an index id that is not an integer of 64 bits, or a key that is not bytes.
    """
    if type(index_id) is not int or not -(2**63) <= index_id < 2**63:
        raise InvalidArgument(f"an index id is an integer of 64 bits, found {type(index_id).__name__}: "
                              f"{shown(index_id)}")
    if type(key) is bytes:
        return index_id, key
    if isinstance(key, bytes | bytearray | memoryview):
        return index_id, bytes(key)
    way = '; encode it: key.encode()' if isinstance(key, str) else ""
    raise InvalidArgument(f"a key is bytes, found {type(key).__name__}: {shown(key)}{way}")


def label(name: Name) -> str:
    """The name of a lock in a message: the key as text where it is text.

    >>> label((1, b"k1")), label((2, b"\\xff\\x00"))
    ('1:k1', '2:0xff00')
    """
    index_id, key = name
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = ""
    return f"{index_id}:{text if text.isprintable() and text else '0x' + key.hex()}"
